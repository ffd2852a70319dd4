"""The one folder that a stranger can write: a file system of its own in memory, with a size and a number of files.

It is mounted where nobody but the grader and what it starts can see it: `enter` makes that place, a mount namespace.
Where none can be made, or memory does not suffice, the folder lies on disk, and the watch counts what is in it.
"""

import ctypes
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from solutions.sandbox import disk
from solutions.sandbox.cgroup import left_in_groups
from solutions.sandbox.disk import Hidden, folder_bytes
from solutions.sandbox.room import Limits

_PLACE, _SOURCE = "trt-lab-place", "trt-lab-scratch-"
"""Names of what is mounted: the folder of all scratches, and a scratch, with the number of its process behind it."""
_SPARE = 1 << 30
"""Bytes of memory that are left to all others."""
_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_PRIVATE_ALL, _NO_SUID_NO_DEV, _DETACH = 0x44000, 0x6, 2
_CAPABILITIES, _SYS_ADMIN, _AMBIENT, _RAISE = 0x20080522, 21, 47, 2
_libc = ctypes.CDLL(None, use_errno=True)


def enter(folder: Path) -> bool:
    """Go into a mount namespace of our own, in which scratches lie in `folder`; say whether that was possible.

    Call it before a thread is started. The folder, which is empty, stays so for all others.

    An ordinary user needs a user namespace for that, in which files and rights stay as they are. The right to mount is
    handed on to the programs that this process starts.
    """
    ids = os.getuid(), os.getgid()
    if _libc.unshare(ctypes.c_int(_NEW_MOUNTS)):
        if _libc.unshare(ctypes.c_int(_NEW_MOUNTS | _NEW_USER)):
            return False
        Path("/proc/self/setgroups").write_text("deny")
        for name, number in zip(("uid_map", "gid_map"), ids, strict=True):
            Path("/proc/self", name).write_text(f"{number} {number} 1")
        rights = 1 << _SYS_ADMIN
        _libc.capset(struct.pack("Ii", _CAPABILITIES, 0), struct.pack("6I", rights, rights, rights, 0, 0, 0))
        _libc.prctl(_AMBIENT, _RAISE, _SYS_ADMIN, 0, 0)
    private = _libc.mount(None, b"/", None, ctypes.c_ulong(_PRIVATE_ALL), None) == 0
    return private and _mount(_PLACE, folder, "size=1m")


@contextmanager
def entered() -> Iterator[None]:
    """Go there with a folder of our own, which is removed after the block."""
    folder = Path(tempfile.mkdtemp(prefix="trt-lab-"))
    enter(folder)
    try:
        yield
    finally:
        remove(folder)


def place() -> Path:
    """Return the folder in which scratches are made: where `enter` went, or that of temporary files."""
    return Path(next((folder for _, folder in _mounts(_PLACE)), tempfile.gettempdir())).resolve()


@contextmanager
def temporary(limits: Limits, prefix: str = "trt-lab-") -> Iterator[Path]:
    """Give a scratch in the folder for temporary files, and remove it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place()))
    try:
        mount(folder, limits)
        yield folder
    finally:
        remove(folder)


def mount(folder: Path, limits: Limits) -> bool:
    """Mount a file system of the scratch's limits on an empty folder; say whether that was possible.

    It is memory: what it and those that are mounted already may still take must be free.
    """
    if _mounts(_PLACE) == []:
        return False
    free = min([psutil.virtual_memory().available, *left_in_groups()])
    if limits.scratch_bytes + sum(map(_left, _mounted())) + _SPARE > free:
        return False
    return _mount(f"{_SOURCE}{os.getpid()}", folder, f"size={limits.scratch_bytes},nr_inodes={limits.scratch_files}")


def _mount(source: str, folder: Path, options: str) -> bool:
    texts = source.encode(), os.fsencode(folder), b"tmpfs"
    return _libc.mount(*texts, ctypes.c_ulong(_NO_SUID_NO_DEV), f"{options},mode=0700".encode()) == 0


def _mounted() -> list[Path]:
    """Return the scratches that are mounted where we are; those of processes that were killed are removed."""
    found = []
    for source, folder in _mounts(_SOURCE):
        if psutil.pid_exists(int(source.removeprefix(_SOURCE))):
            found.append(folder)
        else:
            remove(folder)
    return found


def _mounts(beginning: str) -> list[tuple[str, Path]]:
    """Return what is mounted where we are from a source with this beginning: the source, and the folder."""
    with suppress(OSError):  # only Linux has it
        lines = [line.split(" ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        return [(line[-2], Path(line[4])) for line in lines if line[-2].startswith(beginning)]
    return []


def _left(folder: Path) -> int:
    with suppress(OSError):  # it has just been removed
        found = os.statvfs(folder)
        return found.f_bavail * found.f_frsize
    return 0


def passed(folder: Path, limits: Limits) -> str:
    """Return which limit of a scratch is reached, as a clause that begins with "it"; empty where none is."""
    found = os.statvfs(folder)
    if folder.is_mount():
        files, written = found.f_favail == 0, found.f_bavail == 0
    else:
        try:
            files, written = False, folder_bytes(folder, limits.scratch_files) > limits.scratch_bytes
        except Hidden as hidden:
            return str(hidden)
    if files:
        return f"it made more than its limit of {limits.scratch_files:,} files"
    return f"it wrote more than its limit of {limits.scratch_bytes >> 20:,} MiB" if written else ""


def remove(folder: Path) -> None:
    """Remove a scratch with all that is in it, whatever a stranger did to it."""
    if folder.is_mount():
        _libc.umount2(os.fsencode(folder), _DETACH)
    disk.remove(folder)
