"""The one folder that a stranger can write: a file system of its own in memory, with a size and a number of files.

It is mounted where nobody but the grader and what it starts can see it: `enter` makes that place, a mount namespace.
Where none can be made, or memory does not suffice, the folder lies on disk, and the watch counts what is in it.
"""

import ctypes
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from solutions.sandbox.groups import free_memory
from solutions.sandbox.room import Limits

# How the name of the folder of all scratches begins, and the source of one in memory, before its process's number.
PLACE, _SOURCE = "trt-lab-place-", "trt-lab-scratch-"
# Bytes of memory that are left to all others.
_SPARE = 1 << 30
_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_PRIVATE_ALL, _BIND, _NO_SUID_NO_DEV, _DETACH = 0x44000, 0x1000, 0x6, 2
_CAPABILITIES, _SYS_ADMIN, _AMBIENT, _RAISE = 0x20080522, 21, 47, 2
# What a file or a folder on disk takes at least, and how deep folders may lie: a path must reach them.
_BLOCK, _DEEPEST = 4096, 64
_libc = ctypes.CDLL(None, use_errno=True)

# A command's beginning that takes from it what `enter` hands on.
WITHOUT_RIGHTS = ("setpriv", "--inh-caps=-all", "--ambient-caps=-all")


def enter(folder: Path) -> bool:
    """Go into a mount namespace of our own, in which scratches lie in `folder`; say whether that was possible.

    Call it before a thread is started. The folder's name begins with PLACE; others see none of what is mounted in it.

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
    return private and _libc.mount(*[os.fsencode(folder)] * 2, None, ctypes.c_ulong(_BIND), None) == 0


@contextmanager
def entered() -> Iterator[None]:
    """Go there with a folder of our own, which is removed after the block."""
    folder = Path(tempfile.mkdtemp(prefix=PLACE))
    enter(folder)
    try:
        yield
    finally:
        remove(folder)


def place() -> Path:
    """Return the folder in which scratches are made: where `enter` went, or that of temporary files."""
    places = [folder for _, folder in _mounts() if folder.name.startswith(PLACE)]
    return places[-1] if places else Path(tempfile.gettempdir()).resolve()


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
    taken = 0
    for source, other in _mounts():
        if source.startswith(_SOURCE) and psutil.pid_exists(int(source.removeprefix(_SOURCE))):
            taken += _left(other)
        elif source.startswith(_SOURCE):  # of a process that was killed
            remove(other)
    if not folder.parent.name.startswith(PLACE) or limits.scratch_bytes + taken + _SPARE > free_memory():
        return False
    names = f"{_SOURCE}{os.getpid()}".encode(), os.fsencode(folder), b"tmpfs"
    options = f"size={limits.scratch_bytes},nr_inodes={limits.scratch_files},mode=0700"
    return _libc.mount(*names, ctypes.c_ulong(_NO_SUID_NO_DEV), options.encode()) == 0


def _mounts() -> list[tuple[str, Path]]:
    """Return what is mounted where we are: the source, and the folder."""
    mounts = Path("/proc/self/mountinfo")  # only Linux has it
    lines = [line.split(" ") for line in mounts.read_text().splitlines()] if mounts.exists() else []
    return [(line[-2], Path(line[4])) for line in lines]


def _left(folder: Path) -> int:
    with suppress(OSError):  # it has just been removed
        found = os.statvfs(folder)
        return found.f_bavail * found.f_frsize
    return 0


def passed(folder: Path, limits: Limits) -> str:
    """Return which limit of a scratch is reached, as a clause that begins with "it"; empty if none is."""
    too_many = f"it made more than its limit of {limits.scratch_files:,} files"
    too_much = f"it wrote more than its limit of {limits.scratch_bytes >> 20:,} MiB"
    if folder.is_mount():
        found = os.statvfs(folder)
        return too_many if found.f_favail == 0 else too_much if found.f_bavail == 0 else ""
    total, number, unseen = 0, 0, []
    for path, folders, files in os.walk(folder, onerror=unseen.append):
        number += len(folders) + len(files)
        if number > limits.scratch_files:
            return too_many
        if len(Path(path).parts) - len(folder.parts) > _DEEPEST:
            return f"it made folders more than {_DEEPEST} deep"
        total += sum(_bytes(os.path.join(path, name)) for name in (*folders, *files))
    if any(isinstance(error, PermissionError) for error in unseen):
        return "it closed a folder, whose size cannot be seen then"
    return too_much if total > limits.scratch_bytes else ""


def _bytes(path: str) -> int:
    """Return what an entry takes on a disk; a sparse file as much as a copy of it would."""
    with suppress(FileNotFoundError):  # removed meanwhile
        entry = os.lstat(path)
        return _BLOCK + max(entry.st_size, entry.st_blocks * 512)
    return 0


def remove(folder: Path) -> None:
    """Remove a scratch with all that is in it: closed folders too, and such as are too deep for Python's own."""
    if folder.is_mount():
        _libc.umount2(os.fsencode(folder), _DETACH)
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        for command in (["chmod", "-R", "u+rwX", "--"], ["rm", "-rf", "--"]):  # neither follows links
            subprocess.run([*command, str(folder)], stdin=subprocess.DEVNULL, capture_output=True, check=False)
