"""What a stranger wrote into a folder on disk: how much it is, and its removal."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

_BLOCK = 4096
_DEEPEST = 64


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


def remove(folder: Path) -> None:
    """Remove a folder that a stranger wrote: closed folders too, and such as are too deep for Python's own."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        for command in (["chmod", "-R", "u+rwX", "--"], ["rm", "-rf", "--"]):  # neither follows links
            subprocess.run([*command, str(folder)], stdin=subprocess.DEVNULL, capture_output=True, check=False)
