"""students.csv: who is read from it, what is refused, and the names that formgrader shows."""

from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from solutions.grading.layout import scripts_on_path
from solutions.grading.submissions import ROSTER, Student, Submission, enrol, read_roster
from trtcpu.errors import InputError


def _roster(folder: Path, text: str | bytes) -> list[Student]:
    (folder / ROSTER).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_roster(folder)


def _shown(gradebook: Gradebook) -> dict[str, str]:
    """Return what formgrader's pages show as each student's name."""
    return {student.id: f"{student.last_name}, {student.first_name}" for student in gradebook.students}


@pytest.fixture
def gradebook() -> Gradebook:
    scripts_on_path()
    with Gradebook("sqlite:///:memory:") as opened:
        yield opened


def test_no_class_list_is_an_empty_one(tmp_path: Path) -> None:
    assert read_roster(tmp_path) == []


@pytest.mark.parametrize(
    "text",
    [
        "id,first_name,last_name,email\nada,Ada,Lovelace,ada@example.org\nz,Zoë,,\n",
        "\ufeffemail;last_name;group;id;first_name\r\nada@example.org;Lovelace;7;ada;Ada\r\n;;7;z;Zoë\r\n",
    ],
    ids=["commas", "as a spreadsheet writes it"],
)
def test_the_class_list_is_read_in_its_order(tmp_path: Path, text: str) -> None:
    assert _roster(tmp_path, text) == [Student("ada", "Ada", "Lovelace", "ada@example.org"), Student("z", "Zoë")]


@pytest.mark.parametrize(
    "text, said",
    [
        ("name\nada\n", "no column id: its first line is 'name'"),
        ("", "no column id"),
        ("id\nada\nben\nada\n", "line 4, has the id 'ada' again"),
        ("id,first_name\n,Ada\n", "line 2, has no id"),
        ("id,first_name\nz,Zoë\n".encode("latin-1"), "is not UTF-8"),
    ],
)
def test_a_class_list_that_cannot_be_used_is_refused_with_its_reason(
    tmp_path: Path, text: str | bytes, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        _roster(tmp_path, text)


def test_formgrader_has_a_name_for_everybody(gradebook: Gradebook) -> None:
    gradebook.add_student("cleo")  # as nbgrader's autograde does it
    roster = [Student("ada", "Ada", "Lovelace"), Student("ben")]
    absent = enrol(gradebook, roster, [Submission("ada"), Submission("cleo"), Submission("odd", refused=True)])
    assert _shown(gradebook) == {"ada": "Lovelace, Ada", "ben": "ben, ", "cleo": "cleo, "}
    assert absent == ["ben"]


def test_a_name_that_was_typed_into_formgrader_stays(gradebook: Gradebook) -> None:
    gradebook.add_student("cleo", first_name="Cleo", last_name="Nile")
    enrol(gradebook, [], [Submission("cleo")])
    assert _shown(gradebook) == {"cleo": "Nile, Cleo"}


def test_who_is_not_in_the_class_list_gets_a_note_and_without_a_list_nobody_does(gradebook: Gradebook) -> None:
    noted, plain = Submission("eve"), Submission("eve")
    enrol(gradebook, [Student("ada")], [noted])
    enrol(gradebook, [], [plain])
    assert noted.notes == ["not in students.csv"] and plain.notes == []
