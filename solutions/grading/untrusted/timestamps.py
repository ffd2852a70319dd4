"""When a step was handed in: a timestamp.txt names a time zone, and nbgrader would open any file of that name."""

import datetime
import re
from pathlib import Path

import dateutil.parser
import dateutil.tz
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory

from helpers.tools.files import read_regular
from trtcpu.errors import InputError

_FILE = "timestamp.txt"
_LONGEST = 1000
# A name of the time zone database, such as America/New_York, or UTC+02:00: below its folder, never outside it.
_ZONE = re.compile(r"(?!(am|pm)$)[a-z]{2,}[\w+:-]*(/[\w+-]+)*", re.IGNORECASE | re.ASCII)
# dateutil would fill in what is missing from today, and take 2.12.2026 for a day in February.
_TIME = re.compile(
    r"\d{4}([-/.])\d\d?\1\d\d?([ T]\d\d?:\d\d(:\d\d(\.\d+)?)?( ?[ap]m)?( ?(Z|[+-]\d\d:?\d\d))?)?",
    re.IGNORECASE | re.ASCII,
)


def handed_in(folder: Path) -> datetime.datetime | None:
    """Return the time in the timestamp.txt of a folder, in UTC and without a zone; None if there is none.

    Raises:
        InputError: it is no plain file, or holds no time; the message quotes it.
    """
    path = folder / _FILE
    if not path.exists():
        return None
    said = read_regular(path, _LONGEST).decode("utf-8-sig", errors="replace").strip()
    try:
        return parsed(said) if said else None
    except Exception as error:  # dateutil raises whatever the text leads it into
        raise InputError(f"{_FILE} holds {said[:40]!r}, expected such as 2026-11-01 12:00:00 UTC") from error


def parsed(text: str) -> datetime.datetime:
    """Return a time in UTC; raise ValueError, or what dateutil raises, if the text is none."""
    words, zone = text.split(), None
    if len(words) > 1 and _ZONE.fullmatch(words[-1]) and (zone := dateutil.tz.gettz(words.pop())) is None:
        raise ValueError("no such time zone")
    if not _TIME.fullmatch(said := " ".join(words)):
        raise ValueError("no complete date with the year first")
    when = dateutil.parser.parse(said)
    when = when.replace(tzinfo=zone or when.tzinfo)
    return (when - (when.utcoffset() or datetime.timedelta())).replace(tzinfo=None)


def guard_timestamps() -> None:
    """Have nbgrader read timestamps so, a bad one as none. It has no setting for it: nbgrader_config.py calls this."""
    CourseDirectory.get_existing_timestamp = lambda self, folder: _or_none(folder)
    NbGraderAPI.get_submitted_timestamp = lambda self, step, student: _or_none(
        self.coursedir.format_path(self.coursedir.submitted_directory, student, step)
    )


def _or_none(folder: str) -> datetime.datetime | None:
    try:
        return handed_in(Path(folder))
    except InputError:  # gradebook.py says it
        return None
