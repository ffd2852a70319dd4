"""Which system calls a stranger's process may make, as a filter of the kernel's (seccomp, classic BPF).

syscalls.json names them, with their numbers on x86-64 and on ARM. Every other call is answered as by an older kernel
that lacks it, so that libraries take another way. memfd_create is none of them, since nothing counts such memory. man 2
seccomp says how a filter is read.
"""

import ctypes
import errno
import itertools
import json
import os
import platform
import struct
from pathlib import Path

# The calls that are allowed, read before Landlock closes the file.
_CALLS = json.loads(Path(__file__).with_name("syscalls.json").read_text())

# By machine: which number of a pair is its own, and its AUDIT_ARCH.
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

# From here on x86-64 has the calls of its 32-bit variant.
_X32 = 0x40000000
_NEW_NAMESPACES = 0x7E020000
# Typing into a terminal (TIOCSTI, TIOCLINUX), and changing a file's flags (FS_IOC_SETFLAGS, …_FSSETXATTR).
_IOCTLS = [0x5412, 0x541C, 0x40086602, 0x40046602, 0x401C5820]

# Where no namespace hides other processes and no mount is read-only:
# Landlock, before its version 9, guards no Unix socket at a path, and no version what can be watched. With sendmsg a
# file goes over a socket, and counts nowhere until it is received.
_REFUSED = ("connect", "sendmsg", "sendmmsg", "inotify_add_watch")
# Kinds of sockets that send to whom they are connected, with SOCK_NONBLOCK and SOCK_CLOEXEC; others name somebody.
_CONNECTED = [kind | flags for kind in (1, 5) for flags in (0, 0o4000, 0o2000000, 0o2004000)]
# Their first argument is a process; only 0, the caller itself, is let through.
_OTHERS = ("prlimit64", "ioprio_set", "move_pages")
# For another process or thread they do nothing and say that they did: libraries end if they fail.
_SCHEDULING = ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr")
# They do nothing and say that they did: one group holds all that was started, and one signal ends it at once.
_GROUPS = ("setsid", "setpgid")
# Landlock does not guard them: they do nothing and say that they did, so that shutil.copy still works.
_ATTRIBUTES = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat"),
    *("utime", "utimes", "futimesat", "utimensat"),
    *("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"),
)
_SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal")
# Who is sent a signal when a file is ready, and which one (F_SETOWN, F_SETSIG, F_SETOWN_EX): a way to any process.
_OWNERS = [8, 10, 15]
# The same for a socket (FIOSETOWN, SIOCSPGRP).
_OWNERS_BY_IOCTL = [0x8901, 0x8902]

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_PR_SET_SECCOMP, _FILTER = 22, 2


_Instruction = tuple[int, int, int, int]


def program(machine: str, alone: bool, own_pid: int | None = None) -> bytes:
    """Return the filter for a machine (x86_64, aarch64): rules for single calls, then what is allowed.

    With `alone`, namespaces hide the other processes and mounts guard the files; else the filter also keeps from other
    processes and from files' attributes. With `own_pid`, only signals to that process and its group are let through.

    Raises:
        OSError: the machine is another.
    """
    if machine not in _MACHINES:
        raise OSError(0, f"there is no filter of system calls for {machine}")
    column, architecture = _MACHINES[machine]
    numbers = {name: pair[column] for name, pair in _CALLS.items() if pair[column] is not None}
    code = [(_LOAD, 0, 0, _ARCHITECTURE), (_JUMP_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL)]
    code += [(_LOAD, 0, 0, _NUMBER), (_JUMP_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    for names, tests in _rules(alone, own_pid):
        for number in (numbers[name] for name in names if name in numbers):
            code += [(_JUMP_EQUAL, 0, len(tests) + 1, number), *tests, (_LOAD, 0, 0, _NUMBER)]
    code += _allowed(sorted(numbers.values()))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _rules(alone: bool, own_pid: int | None) -> list[tuple[tuple[str, ...], list[_Instruction]]]:
    """Return names of calls, and what then decides on them."""
    rules = [
        # takes a disk before anybody looks, past the largest file too; libraries write instead
        (("fallocate",), _answer(errno.EOPNOTSUPP)),
        (("clone",), _unless(0, _JUMP_ANY, [_NEW_NAMESPACES])),
        (("socket",), _only(0, [1], errno.EOPNOTSUPP)),  # AF_UNIX; ZeroMQ ends the process at another error
        (("socketpair",), _only(0, [1])),
        (("prctl",), _unless(0, _JUMP_EQUAL, [4])),  # PR_SET_DUMPABLE, which hides what it uses from the limits
        (("ioctl",), _unless(1, _JUMP_EQUAL, _IOCTLS)),
    ]
    if not alone:
        rules += [
            (_REFUSED, _answer(errno.EPERM)),
            (("socket", "socketpair"), _only(1, _CONNECTED)),
            (_OTHERS, _only(0, [0])),
            (_SCHEDULING, _only(0, [0], 0)),
            # PRIO_PROCESS, and the caller itself: PRIO_USER reaches whoever grades
            *((("setpriority",), _only(argument, [0])) for argument in (0, 1)),
            ((*_ATTRIBUTES, *_GROUPS), _answer(0)),
        ]
    if own_pid is not None:
        rules += [
            (_SIGNALS, _only(0, [own_pid, 0, -own_pid])),
            (("fcntl",), _unless(1, _JUMP_EQUAL, _OWNERS)),
            (("ioctl",), _unless(1, _JUMP_EQUAL, _OWNERS_BY_IOCTL)),
        ]
    return rules


def _answer(error: int) -> list[_Instruction]:
    """Answer with an error; 0 says that it was done."""
    return [(_RETURN, 0, 0, _ERRNO | error)]


def _only(argument: int, allowed: list[int], error: int = errno.EPERM) -> list[_Instruction]:
    """Answer with an error, unless the lower half of an argument is one of those allowed."""
    tests = [(_JUMP_EQUAL, len(allowed) - at, 0, value & 0xFFFFFFFF) for at, value in enumerate(allowed)]
    return [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), *tests, *_answer(error)]


def _unless(argument: int, operation: int, values: list[int]) -> list[_Instruction]:
    """Deny the call if the lower half of an argument passes a test with one of some values."""
    tests = [test for value in values for test in ((operation, 0, 1, value), *_answer(errno.EPERM))]
    return [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), *tests]


def _allowed(numbers: list[int]) -> list[_Instruction]:
    """Allow the calls that have a name, and answer all others as a kernel without them does."""
    code = []
    for _, run in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        together = [number for _, number in run]
        code += [(_JUMP_AT_LEAST, 0, 2, together[0]), (_JUMP_AT_LEAST, 1, 0, together[-1] + 1), (_RETURN, 0, 0, _ALLOW)]
    return [*code, *_answer(errno.ENOSYS)]


def install(alone: bool, own_signals: bool) -> None:
    """Put this process under the filter for good, with all that it will start; needs no_new_privs.

    Raises:
        OSError: the kernel refused.
    """
    code = program(platform.machine(), alone, os.getpid() if own_signals else None)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer)))
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_SECCOMP, _FILTER, header, 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel refused the filter of system calls")
