"""The filter of system calls, run by a small interpreter of the instructions it is made of."""

import errno
import struct
from collections.abc import Iterable

import pytest

from solutions.sandbox.inside.seccomp import program

ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
DENIED = ERRNO | errno.EPERM
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CALLS = {  # by their numbers on both; of chmod's: fchmodat
    "read": (0, 63),
    "kill": (62, 129),
    "clone": (56, 220),
    "clone3": (435, 435),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "sendmsg": (46, 211),
    "mount": (165, 40),
    "chmod": (268, 53),
    "ioctl": (16, 29),
    "fcntl": (72, 25),
    "setsid": (112, 157),
    "fallocate": (285, 47),
    "prlimit": (302, 261),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "one that nobody has looked at": (470, 470),
}


def answer(code: bytes, architecture: int, number: int, *arguments: int) -> int:
    """Return what a filter answers: as linux/filter.h says, of seccomp_data."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    instructions, at, value = list(struct.iter_unpack("=HBBI", code)), 0, 0
    while True:
        operation, if_true, if_false, constant = instructions[at]
        at += 1
        if operation == 0x06:
            return constant
        if operation == 0x20:
            (value,) = struct.unpack_from("=I", data, constant)
        else:
            passed = {0x15: value == constant, 0x35: value >= constant, 0x45: bool(value & constant)}[operation]
            at += if_true if passed else if_false


def answers(code: bytes, machine: str, asked: Iterable[tuple]) -> dict[tuple, int]:
    """Return what a filter answers to calls, each by its name and its arguments."""
    numbers = {call: numbers[list(MACHINES).index(machine)] for call, numbers in CALLS.items()}
    return {call: answer(code, MACHINES[machine], numbers[call[0]], *call[1:]) for call in asked}


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_are_denied_by_number_and_by_argument(machine: str) -> None:
    code = program(machine, alone=True)
    asked = {
        ("read", 0): ALLOW,
        ("mount", 0): ERRNO | errno.ENOSYS,
        ("clone", 0x00010F00): ALLOW,  # a thread
        ("clone", 0x10000000): DENIED,  # a user namespace
        ("clone3", 0): ERRNO | errno.ENOSYS,
        ("socket", 1): ALLOW,
        ("socket", 2): ERRNO | errno.EOPNOTSUPP,
        ("chmod", 0): ALLOW,
        ("setsid", 0): ALLOW,
        ("kill", 77): ALLOW,
        ("fallocate", 0): ERRNO | errno.EOPNOTSUPP,
        ("connect", 3): ALLOW,
        ("sendmsg", 3): ALLOW,
        ("socketpair", 1): ALLOW,
        ("socketpair", 30): DENIED,  # of a cluster
        ("ioctl", 0, 0x5401): ALLOW,
        ("ioctl", 0, 0x5412): DENIED,
        ("one that nobody has looked at", 0): ERRNO | errno.ENOSYS,
    }
    assert answers(code, machine, asked) == asked
    assert {answer(code, 0x40000003, number) for number in CALLS["read"]} == {KILL}  # 32-bit calls have other numbers


@pytest.mark.parametrize("machine", MACHINES)
def test_without_namespaces_it_also_keeps_from_other_processes_and_from_files_attributes(machine: str) -> None:
    asked = {
        ("kill", 50): ALLOW,
        ("kill", 0): ALLOW,
        ("kill", (1 << 64) - 50): ALLOW,  # the group
        ("kill", 77): DENIED,
        ("chmod", 0): ERRNO,
        ("setsid",): ERRNO,
        ("prlimit", 0): ALLOW,
        ("prlimit", 77): DENIED,
        ("setpriority", 0, 0): ALLOW,
        ("setpriority", 0, 77): DENIED,
        ("setpriority", 1, 0): DENIED,
        ("setpriority", 2, 0): DENIED,
        ("setpriority", 2, 1000): DENIED,
        ("ioprio_set", 1, 0): DENIED,
        ("ioprio_set", 2, 0): DENIED,
        ("ioprio_set", 3, 0): DENIED,
        ("connect", 3): DENIED,
        ("sendmsg", 3): DENIED,
        **{(call, 1, sort): ALLOW for call in ("socket", "socketpair") for sort in (1, 5, 0o2004001)},
        **{(call, 1, sort): DENIED for call in ("socket", "socketpair") for sort in (2, 3, 0o2000002)},
        **{("fcntl", 3, command): ALLOW for command in (1, 9)},
        **{("fcntl", 3, command): DENIED for command in (8, 10, 15)},
        **{("ioctl", 3, request): DENIED for request in (0x8901, 0x8902)},
        ("ioctl", 3, 0x8903): ALLOW,
    }
    assert answers(program(machine, alone=False, own_pid=50), machine, asked) == asked
    landlock_decides = {("kill", 77): ALLOW}
    assert answers(program(machine, alone=False), machine, landlock_decides) == landlock_decides


def test_the_32_bit_variant_of_x86_is_closed() -> None:
    assert answer(program("x86_64", alone=True), MACHINES["x86_64"], 0x40000000 | 165) == ERRNO | errno.ENOSYS
