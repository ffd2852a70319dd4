"""Reading and writing files so that nothing half-written is ever left behind."""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from helpers.errors import InputError

__all__ = ["atomic_path", "atomic_write", "read_json", "sha256", "write_json"]

_READ_BYTES = 1 << 20


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
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.stem[:40]}-", suffix=path.suffix, dir=within or path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None and error.filename not in (None, str(temporary), str(path)):
            raise
        reason = error.strerror or error
        raise InputError(f"cannot write {path}: {reason}; free space or choose another folder") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def atomic_write(path: str | Path, data: bytes | str) -> None:
    """Write `data` (text as UTF-8) to `path` in one step."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)


def read_json(path: str | Path, what: str = "JSON file") -> Any:
    """Return the parsed content of `path`; `what` names the file's role in the error.

    Raises:
        InputError: the file is missing, unreadable or not JSON.
    """
    try:
        return json.loads(Path(path).read_bytes())
    except OSError as error:
        raise InputError(f"cannot read the {what} {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a valid {what}: {error}; write it again") from error


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
