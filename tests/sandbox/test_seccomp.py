"""The filter of system calls, run by a small interpreter of the instructions it is made of."""

import errno
import struct

import pytest

from solutions.sandbox.inside.seccomp import program

ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NAMES = ("read", "kill", "clone", "socket", "mount", "chmod", "ioctl", "setsid", "fcntl", "fallocate")
CALLS = {
    "x86_64": dict(zip(NAMES, (0, 62, 56, 41, 165, 268, 16, 112, 72, 285), strict=True)),  # of chmod's: fchmodat
    "aarch64": dict(zip(NAMES, (63, 129, 220, 198, 40, 53, 29, 157, 25, 47), strict=True)),
}
PRLIMIT = {"x86_64": 302, "aarch64": 261}


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


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return request.param


def test_calls_are_denied_by_number_and_by_argument(machine: str) -> None:
    code, architecture, calls = program(machine, alone=True), MACHINES[machine], CALLS[machine]
    denied = ERRNO | errno.EPERM
    asked = {
        ("read", 0): ALLOW,
        ("mount", 0): denied,
        ("clone", 0x00010F00): ALLOW,  # a thread
        ("clone", 0x10000000): denied,  # a user namespace
        ("socket", 1): ALLOW,
        ("socket", 2): ERRNO | errno.EOPNOTSUPP,
        ("chmod", 0): ALLOW,
        ("setsid", 0): ALLOW,
        ("kill", 77): ALLOW,
        ("fallocate", 0): ERRNO | errno.EOPNOTSUPP,
    }
    assert {key: answer(code, architecture, calls[key[0]], key[1]) for key in asked} == asked
    assert answer(code, architecture, calls["ioctl"], 0, 0x5401) == ALLOW
    assert answer(code, architecture, calls["ioctl"], 0, 0x5412) == denied
    assert answer(code, architecture, 435, 0) == ERRNO | errno.ENOSYS  # clone3
    assert answer(code, architecture, 470, 0) == ERRNO | errno.ENOSYS  # one that nobody has looked at
    assert answer(code, 0x40000003, calls["read"]) == KILL  # 32-bit calls have other numbers


def test_without_namespaces_it_also_keeps_from_other_processes_and_from_files_attributes(machine: str) -> None:
    code, architecture, calls = program(machine, alone=False, own_pid=50), MACHINES[machine], CALLS[machine]
    denied, done = ERRNO | errno.EPERM, ERRNO
    group = (1 << 64) - 50
    asked = {("kill", 50): ALLOW, ("kill", 0): ALLOW, ("kill", group): ALLOW, ("kill", 77): denied, ("chmod", 0): done}
    assert {key: answer(code, architecture, calls[key[0]], key[1]) for key in asked} == asked
    assert answer(code, architecture, calls["setsid"]) == done
    assert answer(code, architecture, PRLIMIT[machine], 0) == ALLOW
    assert answer(code, architecture, PRLIMIT[machine], 77) == denied
    assert answer(program(machine, alone=False), architecture, calls["kill"], 77) == ALLOW  # Landlock's to decide
    fcntls = {command: answer(code, architecture, calls["fcntl"], 3, command) for command in (1, 8, 9, 10, 15)}
    assert fcntls == {1: ALLOW, 8: denied, 9: ALLOW, 10: denied, 15: denied}
    ioctls = {request: answer(code, architecture, calls["ioctl"], 3, request) for request in (0x8901, 0x8902, 0x8903)}
    assert ioctls == {0x8901: denied, 0x8902: denied, 0x8903: ALLOW}


def test_the_32_bit_variant_of_x86_is_closed() -> None:
    assert answer(program("x86_64", alone=True), MACHINES["x86_64"], 0x40000000 | 165) == ERRNO | errno.ENOSYS
