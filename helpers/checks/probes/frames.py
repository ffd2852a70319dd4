"""The text of an exception of the student's code, and the lines that it came from."""

import re
import sysconfig
import tempfile
import traceback
from pathlib import Path

_PROJECT = Path(__file__).resolve().parents[3]
_NOT_THEIRS = tuple(
    f"{folder}/"
    for folder in (
        _PROJECT / "helpers",
        _PROJECT / "trtcpu",
        _PROJECT / "solutions" / "checks",
        *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
    )
)


def said(error: BaseException) -> str:
    """Return an exception's text, with paths in a probe's temporary folder cut to the file's name."""
    return re.sub(re.escape(tempfile.gettempdir()) + r"/tmp\w+/", "", str(error))


def where(error: BaseException, most: int = 2) -> str:
    """Return "line 3 of build; line 9 of helper" for the innermost frames of the student's code."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_NOT_THEIRS)]
    return "; ".join(f"line {frame.lineno} of {frame.name}" for frame in own[-most:])
