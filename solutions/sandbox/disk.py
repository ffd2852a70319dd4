"""What a stranger wrote: how much it is, whatever was done to hide it, and its removal."""

import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

_BLOCK = 4096
_DEEPEST = 64
_MOST_OPEN, _MOST_MAPPED = 1 << 14, 1 << 18
"""Open files and mapped places of all processes: to look at these takes a third of a second on a slow machine."""


class Hidden(Exception):
    """Something was made so that it cannot be counted; the text is a clause that begins with "it"."""


def folder_bytes(folder: Path, most_files: int) -> int:
    """Return what a folder or a file takes in bytes, links in it not followed; an entry counts for a block at least.

    A sparse file counts as what a copy of it would take.

    Raises:
        Hidden: a folder in it is closed, lies too deep for a path to reach it, or there are more than `most_files`.
    """
    total = 0
    for number, entry in enumerate(_entries(folder), 1):
        if number > most_files:
            raise Hidden(f"it made more than its limit of {most_files:,} files")
        total += _BLOCK + max(entry.st_size, entry.st_blocks * 512)
    return total


def _entries(folder: Path) -> Iterator[os.stat_result]:
    if folder.is_symlink() or not folder.is_dir():
        with contextlib.suppress(FileNotFoundError):
            yield folder.lstat()
        return
    ahead = [(str(folder), 0)]
    while ahead:
        path, depth = ahead.pop()
        if depth > _DEEPEST:
            raise Hidden(f"it made folders more than {_DEEPEST} deep")
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        yield entry.stat(follow_symlinks=False)
                        if entry.is_dir(follow_symlinks=False):
                            ahead.append((entry.path, depth + 1))
        except FileNotFoundError:  # removed meanwhile
            continue
        except PermissionError:
            raise Hidden("it closed a folder, whose size cannot be seen then") from None


def deleted_bytes(pids: list[int], mapped: bool = True) -> tuple[int, set[int]]:
    """Return the bytes of deleted files that processes hold open, or `mapped`, and who does not show its own.

    Files without a name count too (memfd). Each counts once, by the number of its inode: a mapping's device is another
    one than an open file's on some file systems.

    Raises:
        Hidden: there are more open files or mapped places than can be looked at in time.
    """
    sizes: dict[int, int] = {}
    hidden: set[int] = set()
    opened = places = 0
    for pid in pids:
        try:
            names = os.listdir(f"/proc/{pid}/fd")
            lines = Path(f"/proc/{pid}/maps").read_bytes().splitlines() if mapped else []
            deleted = [line for line in lines if line.endswith(b" (deleted)")]
            opened, places = opened + len(names) + len(deleted), places + len(lines)
            if opened > _MOST_OPEN or places > _MOST_MAPPED:
                raise Hidden(f"it opened more than {_MOST_OPEN:,} files, or mapped more than {_MOST_MAPPED:,} places")
            found = [*_open(pid, names), *_mapped(pid, deleted)]
        except PermissionError:
            hidden.add(pid)
            continue
        except OSError:  # it has just ended
            continue
        for inode, size in found:
            sizes[inode] = max(size, sizes.get(inode, 0))
    return sum(sizes.values()), hidden


def _open(pid: int, names: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the inode and the bytes of each deleted file among those that a process holds open.

    Raises:
        PermissionError: it does not show them; root without rights over processes, as in a container, sees their names.
    """
    for name in names:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found = os.stat(f"/proc/{pid}/fd/{name}")
            if stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
                yield found.st_ino, found.st_blocks * 512


def _mapped(pid: int, lines: list[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the inode and the bytes of each deleted file that a process maps; it may have closed it.

    How large the whole file is only root may ask; others see how much of it is mapped.
    """
    for line in lines:
        fields = line.split(None, 5)
        if fields[5].startswith(b"/dev/zero"):
            continue  # shared memory, which counts as memory where it is touched
        place = fields[0].decode()
        start, end = (int(address, 16) for address in place.split("-"))
        try:
            size = os.stat(f"/proc/{pid}/map_files/{place}").st_blocks * 512
        except OSError:
            size = end - start
        yield int(fields[4]), size


def remove(folder: Path) -> None:
    """Remove a folder that a stranger wrote: closed folders too, and such as are too deep for Python's own."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        for command in (["chmod", "-R", "u+rwX", "--"], ["rm", "-rf", "--"]):  # neither follows links
            subprocess.run([*command, str(folder)], stdin=subprocess.DEVNULL, capture_output=True, check=False)
