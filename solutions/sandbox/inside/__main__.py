"""The last step before a stranger's command: gives up rights that it still has, then becomes the command.

    python -I -S inside KIND SPECIFICATION -- COMMAND …

The specification is JSON: file_bytes, and without bubblewrap also environment, reads, writes, devices and names.
Imports nothing outside this folder, since a sandbox has no solutions/.
"""

import ctypes
import json
import os
import resource
import struct
import sys
from contextlib import suppress
from typing import Any, NoReturn

import landlock
import minder
import seccomp

_OPEN_FILES = 4096
_TASKS = 4096
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
_CAPABILITY_VERSION_3 = 0x20080522
_OWN_PROCESS = "/proc/self"

_libc = ctypes.CDLL(None, use_errno=True)


def set_limits(file_bytes: int) -> None:
    """Limit each file's size, the open files and this user's tasks, and leave no core files.

    Never RLIMIT_AS: CUDA maps terabytes. RLIMIT_NPROC counts this user's threads in this user namespace; not root's.
    """
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, file_bytes)
    _lower(resource.RLIMIT_NOFILE, _OPEN_FILES)
    _lower(resource.RLIMIT_NPROC, _tasks() + _TASKS)


def _tasks() -> int:
    user, count = os.getuid(), 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == user:
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


def _lower(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def no_new_rights() -> None:
    """Drop root's capabilities, and keep programs with a setuid bit from gaining rights."""
    for capability in range(64):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    if _libc.capset(struct.pack("Ii", _CAPABILITY_VERSION_3, 0), bytes(24)):
        raise OSError(ctypes.get_errno(), "the capabilities could not be dropped")
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs was refused")


def confine(asked: dict[str, Any]) -> None:
    """Restrict this process to the files that were asked for, and from other processes."""
    # Its own entry of /proc and nobody else's. Open, so that the kernel does not forget which one has the rule.
    os.set_inheritable(os.open(f"/proc/{os.getpid()}", os.O_PATH), True)
    abi = landlock.version()
    if abi < landlock.NEEDED:
        raise OSError(0, f"Landlock has version {abi} here, {landlock.NEEDED} is needed (Linux 6.2)")
    landlock.restrict(asked["reads"], asked["writes"], asked["devices"], f"/proc/{os.getpid()}", asked["names"])
    seccomp.install(alone=False, own_signals=abi < landlock.SCOPED)


def main() -> None:
    """Restrict this process, then run the command in its place."""
    kind, asked, argv = sys.argv[1], json.loads(sys.argv[2]), sys.argv[4:]

    def become() -> None:
        try:
            if kind != "none":
                set_limits(asked["file_bytes"])
            if kind == "landlock":
                no_new_rights()
                confine(asked)
            os.execvpe(argv[0], argv, asked.get("environment", os.environ))
        except (OSError, KeyError) as error:  # KeyError: a processor that the filter does not know
            _refuse(error)

    try:
        if kind == "bubblewrap":
            no_new_rights()
            seccomp.install(alone=True, own_signals=False)
        minder.mind(become)
    except (OSError, KeyError) as error:
        _refuse(error)


def _refuse(error: Exception) -> NoReturn:
    sys.stderr.write(f"the sandbox could not be entered: {error}\n")
    sys.stderr.flush()
    os._exit(126)


main()
