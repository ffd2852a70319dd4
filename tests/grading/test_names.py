"""Names and times that a stranger wrote: shown in one line, no formula in a spreadsheet, no file opened."""

import csv
import datetime
import io
from pathlib import Path
from zoneinfo import TZPATH, ZoneInfo

import pytest
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from rich.console import Console

from helpers.course.steps import COLUMNS
from solutions.grading.__main__ import main
from solutions.grading.class_page import write_class_page
from solutions.grading.course import Course
from solutions.grading.grades import StudentGrades, write_grades
from solutions.grading.regrade import Moved, _table
from solutions.grading.untrusted.text import printable, text_cell
from solutions.grading.untrusted.timestamps import handed_in
from tests.grading.conftest import hand_in
from tests.grading.tiny import STEP
from trtcpu.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")  # nbgrader's own

FORGED = f"\nz · {STEP} · refused: \x1b[31m\u202e\udcff"
SHOWN = rf"\nz · {STEP} · refused: \x1b[31m\u202e\udcff"


def test_what_can_be_printed_stays_and_the_rest_is_escaped() -> None:
    assert printable("Zoë Ångström · 100 % → “fine”") == "Zoë Ångström · 100 % → “fine”"
    assert printable(FORGED) == SHOWN


def test_a_stray_notebooks_name_is_one_line_of_the_terminal(bare: Course, capsys: pytest.CaptureFixture[str]) -> None:
    path = hand_in(bare, "ada", "stray")
    path.rename(path.with_name(f"{STEP}{FORGED}.ipynb"))
    main(course=bare.root, dry_run=True)
    note = f"ada · {STEP}: missing, but there is {STEP}/{STEP}{SHOWN}.ipynb; it belongs at {STEP}/{STEP}.ipynb"
    assert capsys.readouterr().out.splitlines()[0] == note


def test_a_reason_is_one_line_of_regrades_table_and_no_markup() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(_table([Moved("ada", STEP, "square", 0.0, 1.0, f"[/] [red]x{FORGED}")]))
    assert f"[/] [red]x{SHOWN}" in console.export_text()


def test_names_are_one_line_of_grades_csv_and_of_class_html(tmp_path: Path) -> None:
    row = StudentGrades("ada", steps={STEP: 0.0}, notes=[f"missing, but there is {FORGED}"])
    write_grades(tmp_path, [row], dict.fromkeys(COLUMNS, 5.0), [STEP])
    head, line = csv.reader((tmp_path / "grades.csv").read_text().splitlines())
    assert line[-1] == f"missing, but there is {SHOWN}"
    figures = {
        "students": 1,
        "steps": [STEP],
        "rows": [row.shown()],
        "most": 5.0,
        "median": 0.0,
        "bins": [1],
        "claims": [],
        "slowest": [],
    }
    page = write_class_page(tmp_path, {**figures, "messages": [(1, STEP, "title", FORGED)]})
    assert SHOWN in page.read_text()


STARTS = ["=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "\n=1", "\r\n=1", "＝1", ' "=1', '""=1']


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("before", ["", "x;", "x; y;", '";', "x;;"])
def test_no_part_of_a_cell_is_a_formula_wherever_a_spreadsheet_splits(before: str, start: str) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(["ada", text_cell(f"{before}{start}"), "1"])
    for delimiter in ",;":
        for cell in sum(csv.reader(io.StringIO(text.getvalue(), newline=""), delimiter=delimiter), []):
            assert not cell.lstrip(' "').startswith(("=", "+", "-", "@", "\t", "\r", "＝")), (delimiter, cell)


@pytest.mark.parametrize("text", ["", "x", "a;b", "01_export: cell x was missing; 02_fp16: y", "a-b=c", "Zoë; Å"])
def test_a_cell_that_begins_no_formula_stays_as_it_is(text: str) -> None:
    assert text_cell(text) == text


def _folder(tmp_path: Path, text: str | bytes) -> Path:
    (tmp_path / "timestamp.txt").write_bytes(text.encode() if isinstance(text, str) else text)
    return tmp_path


@pytest.mark.parametrize(
    "zone", ["UTC", "Europe/Berlin", "America/Los_Angeles", "America/Argentina/Ushuaia", "EST5EDT"]
)
@pytest.mark.parametrize("clock", ["2026-11-01 12:00:00", "2026-07-31 23:59:59.250000"])
def test_a_time_in_a_zone_is_what_pythons_own_database_says(tmp_path: Path, clock: str, zone: str) -> None:
    expected = datetime.datetime.fromisoformat(clock).replace(tzinfo=ZoneInfo(zone)).astimezone(datetime.timezone.utc)
    assert handed_in(_folder(tmp_path, f"{clock} {zone}\n")) == expected.replace(tzinfo=None)


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("", None),
        (" \n", None),
        ("2026-11-01 12:00:00", 12),
        ("2026-11-01T12:00:00Z", 12),
        ("2026-11-01 12:00:00 +0100", 11),
        ("2026-11-01 12:00:00 -01:00", 13),
        ("2026-11-01 1:00 PM", 13),
        ("2026-11-01 12:00:00 UTC+02:00", 10),
        ("2026-11-01 12:00:00 UTC+2", 10),
        ("2026-11-01 12:00:00 GMT-01:00", 13),
        ("\ufeff2026-11-01 12:00:00 UTC\r\n", 12),
        ("2026-11-01 12:00:00.123456 UTC", 12),  # as nbgrader's exchange writes it
        ("2026-11-01 12:00:00.123456+00:00", 12),  # as nbgrader's zip_collect does
        ("2026/11/1 12:00", 12),
        ("2026-11-01", 0),
    ],
)
def test_a_time_may_be_missing_or_written_as_people_and_programs_do(
    tmp_path: Path, text: str, hour: int | None
) -> None:
    expected = None if hour is None else datetime.datetime(2026, 11, 1, hour)
    found = handed_in(_folder(tmp_path, text))
    assert (found and found.replace(microsecond=0)) == expected


DATABASE = next(path for path in map(Path, TZPATH) if (path / "UTC").is_file())
BAD = [
    *(  # a zone that names a file, which is not opened
        f"2026-11-01 12:00:00 {colon}{name}"
        for colon in ("", ":")
        for name in (DATABASE / "UTC", f"../{DATABASE.name}/UTC", "posix/../UTC")
    ),
    *(f"Sun Nov  1 12:00:00 {zone} 2026" for zone in ("UTC", "CET", "CEST")),
    *("2.12.2026 08:30", "12/2/2026 8:30 AM", "2.12.2026 08:30 UTC", "08:30", "2026", "2026-12", "2026-13-01"),
    *("2026-11-01 12", "2026-11-01 12:00 10:30", "2026-11-01-12-30-00", "20261101", "UTC", "2026-11-01 25:00"),
    *("yesterday", "2026-11-01 12:00:00 Nowhere/Town", "2026-11-01 12:00:00 PDT", "2026-11-01 12:00:00 99999999999"),
    *("9" * 900, "0001-01-01 00:00:00 Asia/Tokyo", "2026-11-01 12:00:00 zone1970.tab", b"\xff\xfe2\x000\x00", b"\0"),
]


@pytest.mark.parametrize("text", BAD)
def test_a_bad_time_is_one_line_and_none_for_nbgrader(bare: Course, text: str | bytes) -> None:
    folder = _folder(hand_in(bare, "ada", "").parent, text)
    with pytest.raises(InputError, match="timestamp.txt holds .*, expected such as 2026") as caught:
        handed_in(folder)
    assert str(caught.value).isprintable()
    ours = CourseDirectory(config=bare.config)
    assert ours.get_existing_timestamp(str(folder)) is None
    assert NbGraderAPI(coursedir=ours).get_submitted_timestamp(STEP, "ada") is None
