"""The last step before a stranger's command, inside its sandbox: gives up rights that it still has, then becomes it.

    python -I -S inside KIND SCRATCH_BYTES -- COMMAND …

It imports nothing outside this folder, since a sandbox has no solutions/.
"""

import ctypes
import os
import resource
import sys

_OPEN_FILES = 4096
_PR_SET_NO_NEW_PRIVS = 38

_libc = ctypes.CDLL(None, use_errno=True)


def set_limits(file_bytes: int) -> None:
    """Limit each file's size and the open files, and leave no core files; never RLIMIT_AS, CUDA maps terabytes."""
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, file_bytes)
    _lower(resource.RLIMIT_NOFILE, _OPEN_FILES)


def _lower(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def no_new_rights() -> None:
    """Keep programs with a setuid bit from gaining rights."""
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs was refused")


def main() -> None:
    """Restrict this process, then run the command in its place."""
    file_bytes, argv = int(sys.argv[2]), sys.argv[4:]
    set_limits(file_bytes)
    no_new_rights()
    os.execvp(argv[0], argv)


main()
