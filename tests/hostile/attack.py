"""What an attack is, and what is seen of the class that it was graded in."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nbformat import NotebookNode

GROUPS = (
    *("records", "patches", "files", "processes", "network"),
    *("resources", "html", "archives", "limits", "evidence", "sharing", "names"),
    *("tool_imported", "tool_read"),
)
BASE, WHOLE = 2.0, 5.0
"""Points of the attacked notebook without the attack, whose square is wrong, and of everybody else's."""

MARK = "PWNED"
"""What an attack writes, so that it is found wherever it comes to lie."""

SECRET = "correct-horse-battery"
"""Stands in the grader's home, environment and neighbours' files; no output may hold it."""


@dataclass
class Seen:
    """What was seen of one class from outside: plain data, since it comes out of the throw-away namespace.

    `points` by student are those of grades.json, `booked` those of the gradebook, `grades` the text of grades.csv;
    `touched` are files outside the attackers' own folders that were made, changed or removed; `survivors` are the
    command lines of processes that outlived the grader; `slowed` is how many levels of niceness others were given;
    `heard` is what reached the listeners; `peaks` are those of observe.py, in megabytes.
    """

    exit_code: int | None = None
    said: str = ""
    points: dict[str, float] = field(default_factory=dict)
    booked: dict[str, float] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    touched: list[str] = field(default_factory=list)
    survivors: list[str] = field(default_factory=list)
    slowed: int = 0
    heard: list[str] = field(default_factory=list)
    notebooks: dict[str, str] = field(default_factory=dict)
    pages: dict[str, str] = field(default_factory=dict)
    grades: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    peaks: dict[str, float] = field(default_factory=dict)

    @property
    def left(self) -> list[str]:
        """What the attackers left behind: files outside their folders, and processes."""
        return self.touched + self.survivors

    @property
    def finished(self) -> bool:
        """Whether the class was graded to its end and the honest have their points, in the gradebook too."""
        kept = (self.points.get(name) == self.booked.get(name) == WHOLE for name in ("a_honest", "z_honest"))
        return self.exit_code == 0 and all(kept)


@dataclass(frozen=True)
class Trial:
    """One attacker's part of what was seen."""

    student: str
    seen: Seen

    @property
    def points(self) -> float:
        """The attacker's points, in the grades or the gradebook, where it has more; none if there are no grades."""
        return max(kept.get(self.student, 0.0) for kept in (self.seen.points, self.seen.booked))

    @property
    def notebook(self) -> str:
        """The text of the autograded notebook."""
        return self.seen.notebooks.get(self.student, "")

    @property
    def page(self) -> str:
        """The feedback page."""
        return self.seen.pages.get(self.student, "")

    @property
    def lines(self) -> str:
        """What the instructor reads of this student: the grader's lines, notes, and what stands in the test cells."""
        said = [line for line in self.seen.said.splitlines() if self.student in line]
        return "\n".join([*said, *self.seen.notes.get(self.student, []), self.notebook])


Goal = Callable[[Trial], bool]


@dataclass(frozen=True)
class Attack:
    """One submission that tries to reach `goal`.

    Attributes:
        code: stands in the TODO cell of `square`; where it defines none, the wrong one of the unattacked notebook
            follows. {MARK}, {STUDENT}, {COURSE} and {HOME} stand for the mark, the folder's name and the places.
        guards: what it aims at (tests/hostile/guards.py); its control runs with these off, and the others on.
        notebook: changes the notebook, where the attack is no code.
        place: does to the course what no notebook can: gets the submission's folder, submitted/STUDENT/STEP.
        says: what the instructor must be able to read about it: a pattern of `Trial.lines`.
        alone: its control is a class of its own, since it harms the others or its goal is the class's.
        apart: it is graded in a class of its own with all guards on too, since its goal is a peak of the class.
    """

    name: str
    group: str
    about: str
    goal: Goal
    guards: tuple[str, ...]
    code: str = ""
    notebook: Callable[[NotebookNode], None] | None = None
    place: Callable[[Path], None] | None = None
    says: str = ""
    alone: bool = False
    apart: bool = False

    @property
    def student(self) -> str:
        """The folder that it is handed in under; between the honest ones in order of names."""
        return f"m-{self.name.replace('_', '-')}"
