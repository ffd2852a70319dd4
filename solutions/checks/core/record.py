"""The record of a test cell: the result of each point, written after each, so that none is lost."""

from dataclasses import asdict, dataclass, field
from pathlib import Path

from helpers.checks.card import Card, Line
from helpers.checks.missed import Missed
from helpers.course.artifacts import artifacts_folder
from helpers.course.steps import CELLS
from helpers.tools.files import write_json
from solutions.checks.core.record_schema import read_checked

NO_SANDBOX = "none"


@dataclass(frozen=True)
class ClaimResult:
    """A decided point. `status` is kept, partial, lost, or error (the check failed: our bug, not the student's)."""

    claim: str
    title: str
    points: float
    earned: float
    status: str
    evidence: str = ""
    missed: dict[str, str] | None = None
    seconds: float = 0.0

    def line(self) -> Line:
        """Return the result as a line of a card."""
        missed = Missed(**self.missed) if self.missed else None
        points = f"{self.earned:g} of {self.points:g} points"
        return Line(self.status == "kept", self.title, self.evidence, missed, points)


@dataclass
class Record:
    """A test cell's decided points in `results`, and its `points` in total; `api` is TensorRT's, 10 or 11.

    `sandbox` is the sandbox of the notebook's kernel, by the names of solutions/sandbox.
    """

    cell: str
    step: str
    criterion: str
    engine: str
    points: float
    results: list[ClaimResult] = field(default_factory=list)
    api: int = 10
    sandbox: str = NO_SANDBOX

    @property
    def earned(self) -> float:
        """Points earned so far, to a hundredth."""
        return round(sum(result.earned for result in self.results), 2)

    def card(self) -> Card:
        """Return the card that students and graders see."""
        name = CELLS[self.cell].title if self.cell in CELLS else self.cell
        title = f"{name}: {self.earned:g} of {self.points:g} points ({self.criterion})"
        return Card(title, [result.line() for result in self.results])

    def write(self) -> None:
        """Write the record to its place, in one step."""
        write_json(record_path(self.cell), {**asdict(self), "earned": self.earned})


def record_path(cell: str, folder: str | Path | None = None) -> Path:
    """Return the path of a cell's record: in `folder`, by default `records` next to the artifacts."""
    return Path(folder or artifacts_folder().parent / "records") / f"{cell}.json"


def read_record(path: str | Path) -> Record:
    """Return the record in a file.

    Raises:
        InputError: it is missing, or its content is not valid.
    """
    found = read_checked(path)
    found.pop("earned", None)
    return Record(**{**found, "results": [ClaimResult(**result) for result in found["results"]]})
