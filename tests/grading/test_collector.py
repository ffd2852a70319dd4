"""Whose a downloaded notebook is, by the names that each platform gives, and when it was handed in."""

import datetime
import zipfile
from pathlib import Path, PurePosixPath

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from helpers.course.handout import mark
from solutions.grading.__main__ import main
from solutions.grading.collector import collect, names_taken, sort_out
from solutions.grading.course import Course
from solutions.grading.submissions import Student
from tests.grading.conftest import hand_in
from tests.grading.tiny import STEP

CLASS = [
    Student("ada_l", "Ada", "Lovelace", "ada@example.org", "4711"),
    Student("alan_t", "Alan", "Turing", "alan@example.org"),
    Student("zoe", "Zoë", "Müller", "zoe@example.org"),
    Student("obrien", "Conan", "O'Brien", "ob@example.org"),
    Student("12345", "Grace", "Hopper", "gh@example.org"),
    Student("lee1", "Min", "Lee", "min@example.org"),
    Student("lee2", "Min", "Lee", "lee@example.org"),
]
NOTEBOOK = f"{STEP}.ipynb"
NAMES = {
    "Canvas": ("lovelaceada_99_67890_01_export.ipynb", "ada_l"),
    "Canvas, whose user number is another student's id": ("turingalan_12345_67890_01_export.ipynb", "alan_t"),
    "Canvas, late and again": ("turingalan_LATE_222_333_01_export-2.ipynb", "alan_t"),
    "Canvas, accents and apostrophes": ("obrienconan_4_5_01_export.ipynb", "obrien"),
    "Canvas by its user number": ("somebodyelse_4711_5_01_export.ipynb", "ada_l"),
    "Blackboard": ("Step 1_ada_l_attempt_2026-11-01-12-00-00_01_export.ipynb", "ada_l"),
    "Blackboard, a column with underscores": (
        "01_export_alan_t_attempt_2026-11-02-12-00-00_01_export.ipynb",
        "alan_t",
    ),
    "Moodle": (f"Zoe\u0308 Müller_4711_assignsubmission_file_/{NOTEBOOK}", "zoe"),
    "Moodle, last name first": (f"Müller Zoë_17_assignsubmission_file_{NOTEBOOK}", "zoe"),
    "Moodle, with a comma": (f"Lovelace, Ada_17_assignsubmission_file/{NOTEBOOK}", "ada_l"),
    "ILIAS": (f"Submissions/Turing_Alan_alan_t_1234/{NOTEBOOK}", "alan_t"),
    "Teams": (f"Submitted files/Grace Hopper/Step 1/Version 2/{NOTEBOOK}", "12345"),
    "Google Classroom": (f"Ada Lovelace - {NOTEBOOK}", "ada_l"),
    "an e-mail as the name": (f"ALAN@example.org/work/{NOTEBOOK}", "alan_t"),
    "an id": ("12345_01_export (1).ipynb", "12345"),
    "a name that two have, by id": (f"lee2_{NOTEBOOK}", "lee2"),
    "ILIAS, a name that two have": (f"Submissions/Lee_Min_lee2_1234/{NOTEBOOK}", "lee2"),
    "ILIAS, whose user number is another student's id": (f"Lee_Min_lee1_12345/{NOTEBOOK}", "lee1"),
}


@pytest.mark.parametrize(("name", "student"), NAMES.values(), ids=NAMES)
def test_whose_a_notebook_is_is_told_by_the_names_of_each_platform(tmp_path: Path, name: str, student: str) -> None:
    (tmp_path / "n").write_text("n")
    [one], lines, unclear = sort_out({PurePosixPath("all") / name: tmp_path / "n"}, STEP, CLASS)
    assert (one.student, unclear, lines) == (student, [], [])


def test_of_namesakes_the_longest_id_after_the_name_counts(tmp_path: Path) -> None:
    (tmp_path / "n").write_text("n")
    twins = [Student(name, "Ada", "Lovelace") for name in ("ada", "ada_l")]
    for name in ("ada", "ada_l"):
        path = PurePosixPath(f"Lovelace_Ada_{name}_1234/{NOTEBOOK}")
        [one], *_ = sort_out({path: tmp_path / "n"}, STEP, twins)
        assert one.student == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("leemin_1_2_01_export.ipynb", "it may be the work of lee1 or lee2: put the id into its name, or a canvas_id"),
        ("Lee_Min_ada_l_1/01_export.ipynb", "it may be the work of lee1 or lee2"),
        ("eve_01_export.ipynb", "no student of students.csv in its name"),
        ("ada_l.ipynb", "its name holds no 01_export"),
    ],
)
def test_a_name_that_means_nobody_or_several_is_left_out_with_the_reason(tmp_path: Path, name: str, why: str) -> None:
    found, [line], _ = sort_out({PurePosixPath(name): tmp_path}, STEP, CLASS)
    assert found == [] and line.startswith(f"{name} left out: {why}")


@pytest.mark.parametrize(
    "name",
    [
        f"ada_l/turingalan_1_2_{NOTEBOOK}",
        f"ada_l/../alan_t/{NOTEBOOK}",
        f"lovelaceada_1_2_turingalan_3_4_{NOTEBOOK}",
        f"Step 1_ada_l_attempt_2026-11-01-12-00-00_x_alan_t_attempt_2026-11-01-12-00-00_{NOTEBOOK}",
        f"Ada Lovelace_1_assignsubmission_file_Alan Turing_2_assignsubmission_file_{NOTEBOOK}",
    ],
)
def test_what_a_student_calls_a_file_makes_it_nobody_elses(tmp_path: Path, name: str) -> None:
    [one], *_ = sort_out({PurePosixPath(name): tmp_path}, STEP, CLASS)
    assert one.student == "ada_l"


@pytest.mark.parametrize("name", ["علی\u200cرضا Karimi", "René\xa0Jean Roe", "क्\u200dष Rao"])
def test_a_name_may_have_a_joiner_or_another_space(tmp_path: Path, name: str) -> None:
    first, last = name.rsplit(" ", 1)
    path = PurePosixPath(f"{name}_1_assignsubmission_file_/{NOTEBOOK}")
    [one], *_ = sort_out({path: tmp_path}, STEP, [Student("ada", first, last)])
    assert one.student == "ada"


def _notebooks(folder: Path, sources: dict[str, str]) -> dict[PurePosixPath, Path]:
    """Write notebooks as they were handed out and then worked in: their one cell has another source, if it is given."""
    found = {}
    for number, (name, source) in enumerate(sources.items()):
        notebook = new_notebook(cells=[new_code_cell("# TODO", id="todo")])
        mark(notebook)
        notebook.cells[0].source = source or notebook.cells[0].source
        nbformat.write(notebook, folder / f"{number}.ipynb")
        found[PurePosixPath(name)] = folder / f"{number}.ipynb"
    return found


SEVERAL = {
    "a newer version": (
        {"Ada Lovelace/Version 1/01_export.ipynb": "1", "Ada Lovelace/Version 2/01_export.ipynb": "2"},
        1,
    ),
    "uploaded to Canvas again": (
        {"lovelaceada_1_9_01_export.ipynb": "1", "lovelaceada_1_10_01_export-1.ipynb": "2"},
        1,
    ),
    "renamed by Canvas": ({"lovelaceada_1_9_01_export-1.ipynb": "2", "lovelaceada_1_9_01_export.ipynb": "1"}, 0),
    "work in a copy": ({"ada_l/01_export.ipynb": "", "ada_l/01_export-Copy1.ipynb": "work"}, 1),
    "the same twice": ({"ada_l/01_export.ipynb": "work", "ada_l_01_export.ipynb": "work"}, 1),
    "two downloads of the class": (
        {f"{name}/Ada Lovelace_1_assignsubmission_file_/01_export.ipynb": name for name in ("first", "second")},
        None,
    ),
    "two works": ({"ada_l/01_export.ipynb": "one", "ada_l/01_export-Copy1.ipynb": "two"}, None),
}


@pytest.mark.parametrize(("sources", "taken"), SEVERAL.values(), ids=SEVERAL)
def test_of_several_notebooks_of_one_student_the_newest_or_the_one_worked_in_counts(
    tmp_path: Path, sources: dict[str, str], taken: int | None
) -> None:
    found, lines, unclear = sort_out(_notebooks(tmp_path, sources), STEP, CLASS)
    names = [*map(PurePosixPath, sources)]
    if taken is None:
        assert found == [] and len(lines) == 2 and unclear == ["ada_l"]
        assert all("a new zip takes the old one's place" in line for line in lines)
    else:
        assert (
            unclear == []
            and len(lines) == 1
            and lines[0].split(" left out: ")[0] in map(str, {*names} - {found[0].name})
        )
        assert found[0].file.read_text() == (tmp_path / f"{taken}.ipynb").read_text()


def test_only_looking_says_the_same_and_takes_nothing(bare: Course) -> None:
    archive = bare.root / "downloaded" / STEP / "archive"
    archive.mkdir(parents=True)
    (archive / f"ada_{NOTEBOOK}").write_text("work")
    (archive / "ben.rar").write_text("work")
    before = sorted(bare.root.rglob("*"))
    looked = collect(bare, only_look=True)
    assert sorted(bare.root.rglob("*")) == before
    assert collect(bare) == looked and len(looked) == 2 and bare.submitted("ada", STEP).read_text() == "work"


def test_a_download_in_the_wrong_folder_is_named(bare: Course) -> None:
    for name in (f"{STEP}/all.zip", f"{STEP}/more.zip", "01_Export/archive/all.zip", "all.zip", ".DS_Store"):
        (path := bare.root / "downloaded" / name).parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    lines = [
        f"downloaded/01_Export is not read: put it into downloaded/<step>/archive/; the steps are {STEP}",
        f"downloaded/{STEP}: all.zip is not read: put all downloads into {STEP}/archive/",
        f"downloaded/all.zip is not read: put it into downloaded/<step>/archive/; the steps are {STEP}",
    ]
    assert collect(bare) == collect(bare, only_look=True) == lines
    (bare.root / "downloaded" / STEP / "archive").mkdir()
    (bare.root / "downloaded" / STEP / "archive" / f"ada_{NOTEBOOK}").write_text("work")
    assert collect(bare) == [f"downloaded/{STEP}: 1 notebooks for submitted/", *lines]
    for name in ("all.zip", "more.zip"):
        (bare.root / "downloaded" / STEP / name).unlink()
    assert collect(bare) == [f"downloaded/{STEP}: collected before", lines[0], lines[2]]


def test_a_download_in_the_wrong_folder_is_named_also_if_nothing_is_there_to_grade(
    bare: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    (bare.root / "downloaded" / STEP).mkdir(parents=True)
    (bare.root / "downloaded" / STEP / "all.zip").touch()
    with pytest.raises(SystemExit):
        main(course=bare.root, dry_run=True)
    said = capsys.readouterr()
    assert "all.zip is not read" in said.out and said.err.startswith("error: nothing to grade")


def test_a_timestamp_that_goes_with_the_earlier_work_is_named(bare: Course) -> None:
    archive = bare.root / "downloaded" / STEP / "archive"
    archive.mkdir(parents=True)
    (archive / f"ada_{NOTEBOOK}").write_text("first")
    collect(bare)
    when = bare.submitted("ada", STEP).with_name("timestamp.txt")
    when.write_text("2026-12-02 08:30:00")
    (archive / f"ada_{NOTEBOOK}").write_text("the second")
    took = f"downloaded/{STEP}: 1 notebooks for submitted/"
    removed = f"submitted/ada/{STEP}/timestamp.txt removed: it belonged to the earlier work; write the new time"
    assert collect(bare) == [took, f"downloaded/{STEP}: {removed}"] and not when.exists()
    assert collect(bare) == [took]


def test_a_new_zip_in_the_old_ones_place_may_hold_only_some_students(bare: Course) -> None:
    archive = bare.root / "downloaded" / STEP / "archive"
    archive.mkdir(parents=True)
    for name, students in {"first.zip": {"ada": "a", "ben": "b"}, "second.zip": {"ben": "the second"}}.items():
        for old in archive.iterdir():
            old.unlink()
        with zipfile.ZipFile(archive / name, "w") as file:
            for student, text in students.items():
                file.writestr(f"{student}/{NOTEBOOK}", text)
        (bare.root / "students.csv").write_text("id\nada\nben\n")
        assert collect(bare) == [f"downloaded/{STEP}: {len(students)} notebooks for submitted/"]
    assert [bare.submitted(one, STEP).read_text() for one in ("ada", "ben")] == ["a", "the second"]
    assert names_taken(bare, STEP).keys() == {"ada", "ben"}


def test_when_a_platform_says_that_work_was_handed_in_is_its_timestamp(bare: Course) -> None:
    deadline = datetime.datetime(2026, 11, 1, 12)
    with bare.gradebook() as gradebook:
        gradebook.update_or_create_assignment(STEP, duedate=deadline)
    archive = bare.root / "downloaded" / STEP / "archive"
    archive.mkdir(parents=True)
    (bare.root / "students.csv").write_text("id,first_name,last_name\nada,Ada,Lovelace\nben,Ben,Bit\neve,Eve,Ox\n")
    hand_in(bare, "ada", "handed in before").with_name("timestamp.txt").write_text("2026-10-01")
    when = datetime.datetime(2026, 11, 2, 8, 30).astimezone()
    for name in (
        f"Step_ben_attempt_{when:%Y-%m-%d-%H-%M-%S}_{NOTEBOOK}",
        f"lovelaceada_LATE_1_2_{NOTEBOOK}",
        f"oxeve_1_2_{NOTEBOOK}",
    ):
        (archive / name).write_text(name)
    assert "a second after the deadline" in collect(bare)[1]
    times = {one: bare.submitted(one, STEP).with_name("timestamp.txt") for one in ("ada", "ben", "eve")}
    utc = f"{when.astimezone(datetime.timezone.utc):%Y-%m-%d %H:%M:%S} UTC\n"
    assert times["ada"].read_text() == "2026-11-01 12:00:01 UTC\n" and times["ben"].read_text() == utc
    assert not times["eve"].exists()
