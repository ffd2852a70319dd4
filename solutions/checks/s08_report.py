"""Claims of step 8: its parts on runs that nobody has seen, a share of the points for each piece; this run's report."""

from collections.abc import Sequence
from functools import lru_cache

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.files import json_of
from helpers.checks.points.s08_report import PARTS
from helpers.checks.points.s08_report.contents import built
from helpers.checks.points.s08_report.runs import MEASUREMENTS, Run
from helpers.course.settings import ENGINES, ONNX_FILE
from helpers.course.steps import made_by
from solutions.checks.core.claim import Earned, claim
from solutions.checks.trusted.report_runs import KINDS, made_up

NUMBERS, CHARTS, ANALYSIS = "report_numbers", "report_charts", "analysis_figures"
_ALL = range(KINDS)
_FEW = (0, 1)
"""Kinds of runs for the report, whose engines are read each time, and for charts, which take a second to draw: the
lab's own engine and batches, which our cells draw first, then others; an INT8 that loses top-1 and one that gains."""


@lru_cache(maxsize=2 * KINDS)
def _run(seed: int, kind: int) -> Run:
    return made_up(seed, kind)


def _award(name: str, points: float, cell: str, kinds: Sequence[int]) -> None:
    part = PARTS[name]

    @claim(name, cell=cell, points=points, title=part.title, reported=part.reported)
    def judge(case: Case) -> Earned:
        runs = [_run(case.number("report.runs"), kind) for kind in kinds]
        kept, missed = part.pieces_of(case, runs)
        return Earned(len(kept) / len(part.pieces), "; ".join(kept), missed[0] if missed else None)


_award("report.sizes", 0.5, NUMBERS, _FEW)
_award("report.memory", 0.5, NUMBERS, _FEW)
_award("report.measurements", 1, NUMBERS, _FEW)
_award("report.speedup", 0.75, NUMBERS, _FEW)
_award("report.accuracy", 0.75, NUMBERS, _FEW)


@claim("report.this_run", cell=NUMBERS, points=0.5, title="The report among the artifacts is of this run")
def this_run(case: Case) -> str:
    contents = {name: json_of(case, f"{name}.json", f"run step {made_by(f'{name}.json')}") for name in MEASUREMENTS}
    run = Run(**contents, files={"onnx": ONNX_FILE, **ENGINES}, report={}, figures={})
    if json_of(case, "report.json", "run the cell that writes it again") != built(case, run):
        expected = "report.json to hold what build_report makes of the files beside it"
        raise Missed(expected, "another content", "run the cell that writes it again, after build_report's")
    return "report.json is what build_report makes of this run's files"


_award("charts.figures", 0.5, CHARTS, _FEW)
_award("charts.labels", 0.5, CHARTS, _FEW)
_award("charts.device", 0.5, CHARTS, _FEW)
_award("charts.numbers", 0.75, CHARTS, _FEW)
_award("charts.limits", 0.25, CHARTS, _FEW)
_award("charts.page", 0.5, CHARTS, _ALL)

_award("analysis.key_figures", 1, ANALYSIS, _ALL)
_award("analysis.length", 0.25, ANALYSIS, _ALL)
_award("analysis.quotes", 0.75, ANALYSIS, _ALL)
