"""Which files a process can reach, by Landlock: the kernel's sandbox for those who may make no namespaces.

https://docs.kernel.org/userspace-api/landlock.html says what the numbers are and what each version ("ABI") can do.
"""

import ctypes
import os
import struct

# The first version that keeps a file from being cut off (Linux 6.2).
_NEEDED = 3
# The first version that keeps signals and abstract sockets inside (Linux 6.12).
SCOPED = 6

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_FOR_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_TCP, _SIGNALS_AND_SOCKETS = 0b11, 0b11

_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Return the kernel's version of Landlock; 0 if it has none or it is switched off."""
    return max(0, _libc.syscall(_CREATE, None, 0, 1))


def restrict(reads: list[str], writes: list[str], devices: list[str], own: str, names: bool) -> None:
    """Leave this process, for good, only files below `reads`, folders `writes` and `devices`; needs no_new_privs.

    `own` is its entry of /proc; with `names` its files there can be written: by them threads get names.

    What does not exist is left out. No TCP. Signals and abstract sockets reach its descendants only, if the kernel can.

    Raises:
        OSError: the kernel refused, or is too old.
    """
    abi = version()
    if abi < _NEEDED:
        raise OSError(0, f"Landlock has version {abi} here, {_NEEDED} is needed (Linux 6.2)")
    handled = (1 << (16 if abi >= 5 else 15)) - 1
    attributes = struct.pack("QQQ", handled, _TCP if abi >= 4 else 0, _SIGNALS_AND_SOCKETS if abi >= SCOPED else 0)
    ruleset = _call(_CREATE, attributes, len(attributes), 0)
    named = _WRITE_FILE | _TRUNCATE if names else 0
    made = handled & ~(_MAKE_CHAR | _MAKE_BLOCK)
    used = handled & (_READ_FILE | _READ_DIR | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV)
    paths = {
        **dict.fromkeys(reads, _READ),
        own: _READ | named,
        **dict.fromkeys(writes, made),
        **dict.fromkeys(devices, used),
    }
    for path, access in paths.items():
        _allow(ruleset, path, access)
    _call(_RESTRICT, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    rights = access if os.path.isdir(path) else access & _FOR_FILES
    _call(_ADD, ruleset, _BENEATH, struct.pack("=Qi", rights, beneath), 0)
    os.close(beneath)


def _call(number: int, *arguments: int | bytes) -> int:
    result = _libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"Landlock refused: {os.strerror(ctypes.get_errno())}")
    return result
