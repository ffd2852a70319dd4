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

_CALLS = json.loads(Path(__file__).with_name("syscalls.json").read_text())
"""The calls that are allowed, read before Landlock closes the file."""

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""By machine: which number of a pair is its own, and its AUDIT_ARCH."""

_X32 = 0x40000000
"""From here on x86-64 has the calls of its 32-bit variant."""

_NEW_NAMESPACES = 0x7E020000
_IOCTLS = [0x5412, 0x541C, 0x40086602, 0x40046602, 0x401C5820]
"""Typing into a terminal (TIOCSTI, TIOCLINUX), and changing a file's flags (FS_IOC_SETFLAGS, …_FSSETXATTR)."""

# Where no namespace hides other processes and no mount is read-only:
_REFUSED = ("connect", "sendmsg", "sendmmsg", "inotify_add_watch")
"""Landlock, before its version 9, guards no Unix socket at a path, and no version what can be watched. With sendmsg a
file goes over a socket, and counts nowhere until it is received."""
_CONNECTED = [kind | flags for kind in (1, 5) for flags in (0, 0o4000, 0o2000000, 0o2004000)]
"""Kinds of sockets that send to whom they are connected, with SOCK_NONBLOCK and SOCK_CLOEXEC; others name somebody."""
_OTHERS = ("prlimit64", "ioprio_set", "move_pages")
"""Their first argument is a process; only 0, the caller itself, is let through."""
_SCHEDULING = ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr")
"""For another process or thread they do nothing and say that they did: libraries end where they fail."""
_GROUPS = ("setsid", "setpgid")
"""They do nothing and say that they did: one group holds all that was started, and one signal ends it at once."""
_ATTRIBUTES = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat"),
    *("utime", "utimes", "futimesat", "utimensat"),
    *("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"),
)
"""Landlock does not guard them: they do nothing and say that they did, so that shutil.copy still works."""
_SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal")
_OWNERS = [8, 10, 15]
"""Who is sent a signal when a file is ready, and which one (F_SETOWN, F_SETSIG, F_SETOWN_EX): a way to any process."""
_OWNERS_BY_IOCTL = [0x8901, 0x8902]
"""The same for a socket (FIOSETOWN, SIOCSPGRP)."""

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_PR_SET_SECCOMP, _FILTER = 22, 2


class _Filter:
    """Instructions of a filter, for one machine; rules for single calls come before what is allowed."""

    def __init__(self, machine: str) -> None:
        column, architecture = _MACHINES[machine]
        self.numbers = {name: pair[column] for name, pair in _CALLS.items() if pair[column] is not None}
        self.code = [(_LOAD, 0, 0, _ARCHITECTURE), (_JUMP_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL)]
        self.code.append((_LOAD, 0, 0, _NUMBER))

    def answer(self, names: tuple[str, ...], error: int) -> None:
        """Answer calls with an error; 0 says that it was done. This machine may lack some."""
        for number in (self.numbers[name] for name in names if name in self.numbers):
            self.code += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | error)]

    def only(self, names: tuple[str, ...], argument: int, allowed: list[int], error: int = errno.EPERM) -> None:
        """Answer calls with an error, unless the lower half of an argument is one of those allowed."""
        tests = [(_JUMP_EQUAL, len(allowed) - at, 0, value & 0xFFFFFFFF) for at, value in enumerate(allowed)]
        self._test(names, argument, [*tests, (_RETURN, 0, 0, _ERRNO | error)])

    def unless(self, name: str, argument: int, operation: int, values: list[int]) -> None:
        """Deny a call where the lower half of an argument passes a test with one of some values."""
        tests = [test for value in values for test in ((operation, 0, 1, value), (_RETURN, 0, 0, _ERRNO | errno.EPERM))]
        self._test((name,), argument, tests)

    def _test(self, names: tuple[str, ...], argument: int, tests: list[tuple[int, int, int, int]]) -> None:
        for name in names:
            self.code.append((_JUMP_EQUAL, 0, len(tests) + 2, self.numbers[name]))
            self.code += [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), *tests, (_LOAD, 0, 0, _NUMBER)]

    def end(self) -> bytes:
        """Allow the calls that have a name, and answer all others as a kernel without them does."""
        numbers = sorted(self.numbers.values())
        for _, run in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
            first, *others = (number for _, number in run)
            last = others[-1] if others else first
            self.code += [(_JUMP_AT_LEAST, 0, 2, first), (_JUMP_AT_LEAST, 1, 0, last + 1), (_RETURN, 0, 0, _ALLOW)]
        self.code.append((_RETURN, 0, 0, _ERRNO | errno.ENOSYS))
        return b"".join(struct.pack("=HBBI", *instruction) for instruction in self.code)


def program(machine: str, alone: bool, own_pid: int | None = None) -> bytes:
    """Return the filter for a machine (x86_64, aarch64).

    With `alone`, namespaces hide the other processes and mounts guard the files; else the filter also keeps from other
    processes and from files' attributes. With `own_pid`, only signals to that process and its group are let through.

    Raises:
        KeyError: the machine is another.
    """
    rules = _Filter(machine)
    rules.code += [(_JUMP_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    # takes a disk before anybody looks, past the largest file too; libraries write instead
    rules.answer(("fallocate",), errno.EOPNOTSUPP)
    rules.unless("clone", 0, _JUMP_ANY, [_NEW_NAMESPACES])
    rules.only(("socket",), 0, [1], errno.EOPNOTSUPP)  # AF_UNIX; ZeroMQ ends the process at another error
    rules.only(("socketpair",), 0, [1])
    rules.unless("prctl", 0, _JUMP_EQUAL, [4])  # PR_SET_DUMPABLE, which hides what it uses from the limits
    rules.unless("ioctl", 1, _JUMP_EQUAL, _IOCTLS)
    if not alone:
        rules.answer(_REFUSED, errno.EPERM)
        rules.only(("socket", "socketpair"), 1, _CONNECTED)
        rules.only(_OTHERS, 0, [0])
        rules.only(_SCHEDULING, 0, [0], 0)
        for argument in (0, 1):  # PRIO_PROCESS, and the caller itself: PRIO_USER reaches whoever grades
            rules.only(("setpriority",), argument, [0])
        rules.answer((*_ATTRIBUTES, *_GROUPS), 0)
    if own_pid is not None:
        rules.only(_SIGNALS, 0, [own_pid, 0, -own_pid])
        rules.unless("fcntl", 1, _JUMP_EQUAL, _OWNERS)
        rules.unless("ioctl", 1, _JUMP_EQUAL, _OWNERS_BY_IOCTL)
    return rules.end()


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
