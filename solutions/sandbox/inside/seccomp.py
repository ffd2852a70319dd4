"""Which system calls a stranger's process may not make, as a filter of the kernel's (seccomp, classic BPF).

A list of what is denied, since Python, CUDA and OpenVINO together need most of the others. Numbers are those of Linux's
headers; 424 and above are the same on every machine. man 2 seccomp says how a filter is read.
"""

import ctypes
import errno
import os
import platform
import struct

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""By machine: which number of a pair below is its own, and its AUDIT_ARCH."""

_DENIED = {
    # other processes' memory, and rights over them
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "migrate_pages": (256, 238),
    # what can be seen of the file system
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    # namespaces; of clone only some flags, below
    "unshare": (272, 97),
    "setns": (308, 268),
    # memory and messages that outlive the process, or that no limit counts
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "memfd_secret": (447, 447),
    # large parts of the kernel that nothing here needs
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # the machine itself
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "ioperm": (173, None),
    "iopl": (172, None),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
}
_MISSING = {"clone3": (435, 435)}
"""Answered as by an older kernel, so that libraries take the other way: a filter cannot read clone3's flags."""
_FALLOCATE = (285, 47)
"""Takes a disk before anybody looks, past the largest file too. Answered as by a file system that lacks it, so that
libraries write instead."""
_FIRST_UNKNOWN = 463
"""Calls of kernels after Linux 6.12 are missing as well: nobody has looked at them."""

_CLONE = (56, 220)
_NEW_NAMESPACES = 0x7E020000
_SOCKET, _SOCKETPAIR = (41, 198), (53, 199)
_PRCTL = (157, 167)
_IOCTL = (16, 29)
_IOCTLS = (0x5412, 0x541C, 0x40086602, 0x40046602, 0x401C5820)
"""Typing into a terminal (TIOCSTI, TIOCLINUX), and changing a file's flags (FS_IOC_SETFLAGS, …_FSSETXATTR)."""

# Where no namespace hides other processes and no mount is read-only:
_CONNECT = (42, 203)
"""Landlock guards no Unix socket that lies at a path, before its version 9: nobody is connected to."""
_SENDS_FILES = {"sendmsg": (46, 211), "sendmmsg": (307, 269)}
"""With them a file goes over a socket, and counts nowhere until it is received."""
_CONNECTED = [kind | flags for kind in (1, 5) for flags in (0, 0o4000, 0o2000000, 0o2004000)]
"""Kinds of sockets that send to whom they are connected, with SOCK_NONBLOCK and SOCK_CLOEXEC; others name somebody."""
_OTHERS = {"prlimit64": (302, 261), "ioprio_set": (251, 30), "move_pages": (279, 239)}
"""Their first argument is a process; only 0, the caller itself, is let through."""
_SCHEDULING = {
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
}
"""For another process or thread they do nothing and say that they did: libraries end where they fail."""
_PRIORITY = (141, 140)
_GROUPS = {"setsid": (112, 157), "setpgid": (109, 154)}
"""They do nothing and say that they did: one group holds all that was started, and one signal ends it at once."""
_ATTRIBUTES = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "lchown": (94, None),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
}
"""Landlock does not guard them: they do nothing and say that they did, so that shutil.copy still works."""
_SIGNALS = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
}
_FCNTL = (72, 25)
_OWNERS = (8, 10, 15)
"""Who is sent a signal when a file is ready, and which one (F_SETOWN, F_SETSIG, F_SETOWN_EX): a way to any process."""
_OWNERS_BY_IOCTL = (0x8901, 0x8902)
"""The same for a socket (FIOSETOWN, SIOCSPGRP)."""

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_PR_SET_SECCOMP, _FILTER = 22, 2


class _Filter:
    """Instructions of a filter, for one machine."""

    def __init__(self, machine: str) -> None:
        self._column, architecture = _MACHINES[machine]
        self.code = [(_LOAD, 0, 0, _ARCHITECTURE), (_JUMP_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL)]
        self.code.append((_LOAD, 0, 0, _NUMBER))

    def numbers(self, calls: dict[str, tuple[int | None, int | None]]) -> list[int]:
        """Return this machine's numbers of some calls; it may lack one."""
        return [number for pair in calls.values() if (number := pair[self._column]) is not None]

    def answer(self, number: int, error: int) -> None:
        """Answer a call with an error; 0 says that it was done."""
        self.code += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | error)]

    def answer_from(self, number: int, error: int) -> None:
        """Answer calls of this number and above with an error."""
        self.code += [(_JUMP_AT_LEAST, 0, 1, number), (_RETURN, 0, 0, _ERRNO | error)]

    def only(self, number: int, argument: int, allowed: list[int], error: int = errno.EPERM) -> None:
        """Answer a call with an error, unless the lower half of an argument is one of those allowed."""
        tests = [(_JUMP_EQUAL, len(allowed) - at, 0, value & 0xFFFFFFFF) for at, value in enumerate(allowed)]
        self._test(number, argument, [*tests, (_RETURN, 0, 0, _ERRNO | error)])

    def unless(self, number: int, argument: int, operation: int, values: list[int]) -> None:
        """Deny a call where the lower half of an argument passes a test with one of some values."""
        tests = [test for value in values for test in ((operation, 0, 1, value), (_RETURN, 0, 0, _ERRNO | errno.EPERM))]
        self._test(number, argument, tests)

    def _test(self, number: int, argument: int, tests: list[tuple[int, int, int, int]]) -> None:
        self.code.append((_JUMP_EQUAL, 0, len(tests) + 2, number))
        self.code += [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), *tests, (_LOAD, 0, 0, _NUMBER)]


def program(machine: str, alone: bool, own_pid: int | None = None) -> bytes:
    """Return the filter for a machine (x86_64, aarch64).

    With `alone`, namespaces hide the other processes and mounts guard the files; else the filter also keeps from other
    processes and from files' attributes. With `own_pid`, only signals to that process and its group are let through.

    Raises:
        KeyError: the machine is another.
    """
    rules = _Filter(machine)
    column = _MACHINES[machine][0]
    if machine == "x86_64":  # the calls of its 32-bit variant x32, under numbers of their own
        rules.answer_from(0x40000000, errno.ENOSYS)
    for number in rules.numbers(_DENIED):
        rules.answer(number, errno.EPERM)
    for number in rules.numbers(_MISSING):
        rules.answer(number, errno.ENOSYS)
    rules.answer_from(_FIRST_UNKNOWN, errno.ENOSYS)
    rules.answer(_FALLOCATE[column], errno.EOPNOTSUPP)
    rules.unless(_CLONE[column], 0, _JUMP_ANY, [_NEW_NAMESPACES])
    rules.only(_SOCKET[column], 0, [1], errno.EOPNOTSUPP)  # AF_UNIX; ZeroMQ ends the process at another error
    rules.only(_SOCKETPAIR[column], 0, [1])
    rules.unless(_PRCTL[column], 0, _JUMP_EQUAL, [4])  # PR_SET_DUMPABLE, which hides open files from the limits
    rules.unless(_IOCTL[column], 1, _JUMP_EQUAL, list(_IOCTLS))
    if not alone:
        for number in (_CONNECT[column], *rules.numbers(_SENDS_FILES)):
            rules.answer(number, errno.EPERM)
        for call in (_SOCKET, _SOCKETPAIR):
            rules.only(call[column], 1, _CONNECTED)
        for number in rules.numbers(_OTHERS):
            rules.only(number, 0, [0])
        for number in rules.numbers(_SCHEDULING):
            rules.only(number, 0, [0], 0)
        for argument in (0, 1):  # PRIO_PROCESS, and the caller itself: PRIO_USER reaches whoever grades
            rules.only(_PRIORITY[column], argument, [0])
        for number in rules.numbers({**_ATTRIBUTES, **_GROUPS}):
            rules.answer(number, 0)
    if own_pid is not None:
        for number in rules.numbers(_SIGNALS):
            rules.only(number, 0, [own_pid, 0, -own_pid])
        rules.unless(_FCNTL[column], 1, _JUMP_EQUAL, list(_OWNERS))
        rules.unless(_IOCTL[column], 1, _JUMP_EQUAL, list(_OWNERS_BY_IOCTL))
    rules.code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in rules.code)


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
