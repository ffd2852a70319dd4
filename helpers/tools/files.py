"""Reading and writing files so that nothing half-written is ever left behind."""

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trtcpu.errors import InputError

_READ_BYTES = 1 << 20
TEMPORARIES: set[Path] = set()
"""Files and folders that are removed if this process ends without unwinding."""


@contextlib.contextmanager
def atomic_path(path: str | Path, within: Path | None = None) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it onto `path` on success, remove it on any failure or interrupt.

    `within` is another folder of the same disk for it, where whoever lists the folder of `path` must not find it.

    Raises:
        InputError: the folder cannot be written to (read-only, full, or not a folder).
    """
    path = Path(path)
    temporary: Path | None = None
    try:
        with made_folders(path.parent), temporary_path(path, within) as temporary:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            yield temporary
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
    except OSError as error:
        if error.filename not in (None, str(temporary), str(path), *map(str, path.parents)):
            raise
        reason = error.strerror or error
        raise InputError(f"cannot write {path}: {reason}; free space or choose another folder") from error


@contextlib.contextmanager
def made_folders(folder: Path) -> Iterator[None]:
    """Make `folder` and its parents; if the block fails, those that were made here and are empty go again.

    Raises:
        OSError: they cannot be made.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # another process may have written into one of them
            for path in missing:
                path.rmdir()
        raise


@contextlib.contextmanager
def temporary_path(path: Path, within: Path | None = None) -> Iterator[Path]:
    """Give a new name beside `path`, or in `within`, for a file or a folder that is removed when the block has ended.

    It is known before anything of that name exists: a signal between the two must not leave what nobody knows.
    """
    temporary = (within or path.parent) / f".{path.stem[:40]}-{secrets.token_hex(4)}{path.suffix}"
    TEMPORARIES.add(temporary)
    try:
        yield temporary
    finally:
        _remove(temporary)
        TEMPORARIES.discard(temporary)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_temporaries() -> None:
    """Remove every temporary file and folder of this process: it is about to end without unwinding."""
    for path in list(TEMPORARIES):
        with contextlib.suppress(OSError):
            _remove(path)


def atomic_write(path: str | Path, data: bytes | str) -> None:
    """Write `data` (text as UTF-8) to `path` in one step."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)


def read_file(path: str | Path, what: str, remedy: str = "") -> bytes:
    """Return the bytes of a file; `what` names its role in the error, `remedy` what to do then.

    Raises:
        InputError: the file is missing or unreadable.
    """
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path that cannot be
        reason = getattr(error, "strerror", None) or error
        ending = f"; {remedy}" if remedy else ""
        raise InputError(f"cannot read the {what} {path}: {reason}{ending}") from error


def read_text(path: str | Path, what: str, remedy: str = "") -> str:
    """Return the text of a file in UTF-8, with or without a byte order mark; otherwise as `read_file`."""
    data = read_file(path, what, remedy)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"cannot read the {what} {path}: {error}; give a file of UTF-8 text") from error


def read_json(path: str | Path, what: str = "JSON file") -> Any:
    """Return the parsed content of `path`; `what` names the file's role in the error.

    Raises:
        InputError: the file is missing, unreadable or not JSON.
    """
    data = read_file(path, what)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a valid {what}: {error}; write it again") from error


def read_regular(path: str | Path, largest: int, what: str = "file") -> bytes:
    """Return the bytes of a file that a stranger may have put there: no link is followed, no pipe waited for.

    Raises:
        InputError: it is missing, unreadable, not a plain file, or has more than `largest` bytes.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        if os.path.islink(path):
            raise InputError(f"the {what} {path} is a link, and links are not followed; put the file itself there")
        with open(os.open(path, flags), "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise InputError(f"the {what} {path} is no plain file; put a file there")
            data = file.read(largest + 1) if about.st_size <= largest else b""
    except OSError as error:
        raise InputError(f"cannot read the {what} {path}: {error.strerror or error}") from error
    if about.st_size > largest or len(data) > largest:
        raise InputError(f"the {what} {path} has {about.st_size:,} bytes; at most {largest:,} are read")
    return data


def read_within(folder: str | Path, name: str, most: int) -> bytes:
    """Return the content of a file that lies in `folder` itself and that a stranger may have put there.

    Raises:
        InputError: it is missing, a link, no ordinary file, or larger than `most` bytes.
    """
    if name != os.path.basename(name) or name in ("", ".", ".."):
        raise InputError(f"{name!r:.80} is no name of a file; give one without a folder")
    try:
        with open(_opened(folder, name), "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_size > most:
                raise InputError(f"{name} is no ordinary file of at most {most / 1e6:.0f} MB; write it again")
            return file.read(about.st_size)
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror or error}; is it an ordinary file?") from error


def _opened(folder: str | Path, name: str) -> int:
    """Return the descriptor of a file in a folder; neither of them may be a link, if the system can tell."""
    if os.open not in os.supports_dir_fd:  # Windows
        return os.open(Path(folder) / name, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
    finally:
        os.close(place)


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as indented JSON in one step."""
    atomic_write(path, json.dumps(value, indent=2) + "\n")


def sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
