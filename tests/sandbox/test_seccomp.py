"""The filter of system calls, run by a small interpreter of the instructions it is made of."""

import errno
import struct

import pytest

from solutions.sandbox.inside.seccomp import program

ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CALLS = {  # by their numbers on both; of chmod's: fchmodat
    "read": (0, 63),
    "kill": (62, 129),
    "clone": (56, 220),
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
}
PRLIMIT = {"x86_64": 302, "aarch64": 261}
SETPRIORITY = {"x86_64": 141, "aarch64": 140}
IOPRIO_SET = {"x86_64": 251, "aarch64": 30}


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


def calls_of(machine: str) -> dict[str, int]:
    return {name: numbers[list(MACHINES).index(machine)] for name, numbers in CALLS.items()}


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return request.param


def test_calls_are_denied_by_number_and_by_argument(machine: str) -> None:
    code, architecture, calls = program(machine, alone=True), MACHINES[machine], calls_of(machine)
    denied = ERRNO | errno.EPERM
    asked = {
        ("read", 0): ALLOW,
        ("mount", 0): ERRNO | errno.ENOSYS,
        ("clone", 0x00010F00): ALLOW,  # a thread
        ("clone", 0x10000000): denied,  # a user namespace
        ("socket", 1): ALLOW,
        ("socket", 2): ERRNO | errno.EOPNOTSUPP,
        ("chmod", 0): ALLOW,
        ("setsid", 0): ALLOW,
        ("kill", 77): ALLOW,
        ("fallocate", 0): ERRNO | errno.EOPNOTSUPP,
        ("connect", 3): ALLOW,
        ("sendmsg", 3): ALLOW,
        ("socketpair", 1): ALLOW,
        ("socketpair", 30): denied,  # of a cluster
    }
    assert {key: answer(code, architecture, calls[key[0]], key[1]) for key in asked} == asked
    assert answer(code, architecture, calls["ioctl"], 0, 0x5401) == ALLOW
    assert answer(code, architecture, calls["ioctl"], 0, 0x5412) == denied
    assert answer(code, architecture, 435, 0) == ERRNO | errno.ENOSYS  # clone3
    assert answer(code, architecture, 470, 0) == ERRNO | errno.ENOSYS  # one that nobody has looked at
    assert answer(code, 0x40000003, calls["read"]) == KILL  # 32-bit calls have other numbers


def test_without_namespaces_it_also_keeps_from_other_processes_and_from_files_attributes(machine: str) -> None:
    code, architecture, calls = program(machine, alone=False, own_pid=50), MACHINES[machine], calls_of(machine)
    denied, done = ERRNO | errno.EPERM, ERRNO
    group = (1 << 64) - 50
    asked = {("kill", 50): ALLOW, ("kill", 0): ALLOW, ("kill", group): ALLOW, ("kill", 77): denied, ("chmod", 0): done}
    assert {key: answer(code, architecture, calls[key[0]], key[1]) for key in asked} == asked
    assert answer(code, architecture, calls["setsid"]) == done
    assert answer(code, architecture, PRLIMIT[machine], 0) == ALLOW
    assert answer(code, architecture, PRLIMIT[machine], 77) == denied
    whom = {(0, 0): ALLOW, (0, 77): denied, (1, 0): denied, (2, 0): denied, (2, 1000): denied}  # of setpriority(2)
    assert {key: answer(code, architecture, SETPRIORITY[machine], *key) for key in whom} == whom
    assert {answer(code, architecture, IOPRIO_SET[machine], which, 0) for which in (1, 2, 3)} == {denied}
    assert answer(program(machine, alone=False), architecture, calls["kill"], 77) == ALLOW  # Landlock's to decide
    assert [answer(code, architecture, calls[name], 3) for name in ("connect", "sendmsg")] == [denied, denied]
    for name in ("socket", "socketpair"):
        sorts = {sort: answer(code, architecture, calls[name], 1, sort) for sort in (1, 5, 0o2004001, 2, 3, 0o2000002)}
        assert sorts == {1: ALLOW, 5: ALLOW, 0o2004001: ALLOW, 2: denied, 3: denied, 0o2000002: denied}
    fcntls = {command: answer(code, architecture, calls["fcntl"], 3, command) for command in (1, 8, 9, 10, 15)}
    assert fcntls == {1: ALLOW, 8: denied, 9: ALLOW, 10: denied, 15: denied}
    ioctls = {request: answer(code, architecture, calls["ioctl"], 3, request) for request in (0x8901, 0x8902, 0x8903)}
    assert ioctls == {0x8901: denied, 0x8902: denied, 0x8903: ALLOW}


def test_the_32_bit_variant_of_x86_is_closed() -> None:
    assert answer(program("x86_64", alone=True), MACHINES["x86_64"], 0x40000000 | 165) == ERRNO | errno.ENOSYS
