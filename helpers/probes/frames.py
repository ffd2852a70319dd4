"""Where in the student's own code an exception came from."""

import sysconfig
import traceback
from pathlib import Path

__all__ = ["where"]

_PROJECT = Path(__file__).resolve().parents[2]
_NOT_THEIRS = tuple(
    f"{folder}/"
    for folder in (
        _PROJECT / "helpers",
        _PROJECT / "solutions" / "checks",
        *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
    )
)


def where(error: BaseException, most: int = 2) -> str:
    """Return "line 3 of build; line 9 of helper" for the innermost frames that are neither ours nor a package's."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_NOT_THEIRS)]
    return "; ".join(f"line {frame.lineno} of {frame.name}" for frame in own[-most:])
