"""What a claim is: one function with a name, points, a criterion and the test cell that it belongs to.

@claim("fp16.half_precision", cell="fp16_engine", points=1.5, title="The layers run in half precision")
def half_precision(student: Student, case: Case) -> str:
    ...                                    # returns its evidence, or raises Missed (no points)
    return Earned(0.5, "…")                # or a share of the points
"""

from collections.abc import Callable
from dataclasses import dataclass

from helpers.feedback.card import Missed

__all__ = ["CELLS", "CRITERIA", "Cell", "Claim", "Earned", "Missed", "claim", "claims_of"]

CRITERIA = ("correctness", "performance", "accuracy", "documentation")


@dataclass(frozen=True)
class Cell:
    """A test cell: the step whose notebook holds it, and the criterion that its points count for."""

    step: str
    criterion: str


CELLS: dict[str, Cell] = {
    "export_model": Cell("01_export", "correctness"),
    "simplify_model": Cell("01_export", "correctness"),
    "export_files": Cell("01_export", "correctness"),
    "fp16_engine": Cell("02_fp16", "correctness"),
    "fp16_speed": Cell("02_fp16", "performance"),
    "dynamic_engine": Cell("03_dynamic", "correctness"),
    "dynamic_speed": Cell("03_dynamic", "performance"),
    "calibration_dataset": Cell("04_int8", "correctness"),
    "calibrator": Cell("04_int8", "correctness"),
    "int8_engine": Cell("04_int8", "correctness"),
    "int8_calibration": Cell("04_int8", "correctness"),
    "int8_speed": Cell("04_int8", "performance"),
    "inference_class": Cell("05_inference", "correctness"),
    "benchmark_latency": Cell("06_benchmark", "performance"),
    "benchmark_throughput": Cell("06_benchmark", "performance"),
    "benchmark_results": Cell("06_benchmark", "performance"),
    "evaluate_accuracy": Cell("07_accuracy", "accuracy"),
    "accuracy_results": Cell("07_accuracy", "accuracy"),
    "report_numbers": Cell("08_report", "documentation"),
    "report_charts": Cell("08_report", "documentation"),
    "analysis_figures": Cell("08_report", "documentation"),
    "analysis": Cell("08_report", "documentation"),
}
"""Every graded cell by its nbgrader grade_id; `analysis` is the one that a person reads."""


@dataclass(frozen=True)
class Earned:
    """A share of a claim's points, 0 to 1, with the evidence; `missed` says what the rest asks for."""

    share: float
    evidence: str
    missed: Missed | None = None


Check = Callable[..., "str | Earned"]


@dataclass(frozen=True)
class Claim:
    """One thing that is claimed of a submission, and what it is worth."""

    name: str
    cell: str
    points: float
    title: str
    check: Check

    @property
    def criterion(self) -> str:
        """The criterion that the points count for."""
        return CELLS[self.cell].criterion


_CLAIMS: dict[str, Claim] = {}


def claim(name: str, *, cell: str, points: float, title: str) -> Callable[[Check], Check]:
    """Register the decorated function as a claim of `cell`; claims run in the order they are written in."""

    def register(check: Check) -> Check:
        known = _CLAIMS.get(name)
        if cell not in CELLS or (known is not None and known.check.__module__ != check.__module__):
            raise ValueError(f"claim {name} of cell {cell}: the name is taken or the cell unknown")
        _CLAIMS[name] = Claim(name, cell, points, title, check)
        return check

    return register


def claims_of(cell: str) -> list[Claim]:
    """Return the claims of a test cell in order."""
    from solutions.checks import all_claims  # noqa: F401 - importing the steps' modules registers their claims

    return [found for found in _CLAIMS.values() if found.cell == cell]
