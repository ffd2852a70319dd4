"""What a claim is: one thing that earns points, in the test cell that it belongs to.

award("fp16.workspace", 0.75, s02_fp16.workspace, cell="fp16_engine")      # a step's point, on a fresh case

@claim("fp16.speed", cell="fp16_speed", points=3, title="As fast as the reference engine")
def speed(case: Case) -> str:          # what only the trusted side can judge
    ...                                # returns its evidence, or raises Missed (no points)
    return Earned(0.5, "…")            # or a share of the points
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import Point, Reported

CRITERIA = ("correctness", "performance", "accuracy", "documentation")
"""What the 100 points are for."""

BONUS = "bonus"
"""The criterion of the optional steps; its points are never part of the 100."""

COLUMNS = (*CRITERIA, BONUS)


@dataclass(frozen=True)
class Cell:
    """A test cell: the step whose notebook holds it, the criterion that its points count for, its name for readers."""

    step: str
    criterion: str
    title: str

    @property
    def timed(self) -> bool:
        """Whether its claims, or what the notebook does for them, measure time: nothing may run beside it then."""
        return self.criterion == "performance"


CELLS: dict[str, Cell] = {
    "export_model": Cell("01_export", "correctness", "Export to ONNX"),
    "simplify_model": Cell("01_export", "correctness", "Simplify the graph"),
    "export_files": Cell("01_export", "correctness", "The two files"),
    "fp16_engine": Cell("02_fp16", "correctness", "FP16 engine"),
    "fp16_speed": Cell("02_fp16", "performance", "FP16 engine: speed"),
    "dynamic_engine": Cell("03_dynamic", "correctness", "Dynamic engine"),
    "dynamic_speed": Cell("03_dynamic", "performance", "Dynamic engine: speed and saturation"),
    "calibration_dataset": Cell("04_int8", "correctness", "Calibration images"),
    "calibrator": Cell("04_int8", "correctness", "Calibrator"),
    "int8_engine": Cell("04_int8", "correctness", "INT8 engine"),
    "int8_calibration": Cell("04_int8", "correctness", "Calibrated engine"),
    "int8_speed": Cell("04_int8", "performance", "INT8 engine: speed"),
    "inference_class": Cell("05_inference", "correctness", "TensorRTInference"),
    "benchmark_latency": Cell("06_benchmark", "performance", "Latency"),
    "benchmark_throughput": Cell("06_benchmark", "performance", "Throughput"),
    "benchmark_results": Cell("06_benchmark", "performance", "Measurements"),
    "evaluate_accuracy": Cell("07_accuracy", "accuracy", "evaluate_accuracy"),
    "accuracy_results": Cell("07_accuracy", "accuracy", "accuracy.json"),
    "report_numbers": Cell("08_report", "documentation", "Report"),
    "report_charts": Cell("08_report", "documentation", "Charts and page"),
    "analysis_figures": Cell("08_report", "documentation", "Analysis: figures and length"),
    "analysis": Cell("08_report", "documentation", "Analysis: the text"),
    "mixed_layers": Cell("09_mixed_precision", BONUS, "Layers kept in FP16"),
    "mixed_engine": Cell("09_mixed_precision", BONUS, "Mixed engine"),
    "mixed_sensitivity": Cell("09_mixed_precision", BONUS, "Sensitivity"),
    "mixed_choice": Cell("09_mixed_precision", BONUS, "The smallest set"),
    "mixed_results": Cell("09_mixed_precision", BONUS, "Mixed precision of the lab's model"),
    "profiles_engine": Cell("10_profiles_and_streams", BONUS, "Several profiles"),
    "streamed_batches": Cell("10_profiles_and_streams", BONUS, "Batches through several streams"),
    "bert_export": Cell("11_bert", BONUS, "Export BERT"),
    "bert_calibrator": Cell("11_bert", BONUS, "Calibrate on text"),
    "bert_engine": Cell("11_bert", BONUS, "BERT's engines"),
    "bert_pooling": Cell("11_bert", BONUS, "Sentence vectors"),
    "bert_batches": Cell("11_bert", BONUS, "Batches by length"),
    "layer_times": Cell("12_layer_profiling", BONUS, "Layer times"),
    "layer_bounds": Cell("12_layer_profiling", BONUS, "What bounds a layer"),
    "trtexec_profile": Cell("12_layer_profiling", BONUS, "trtexec's profile"),
    "compilers_clocks": Cell("13_compilers", BONUS, "Two clocks"),
    "compilers_costs": Cell("13_compilers", BONUS, "What compiling costs"),
    "qdq_pair": Cell("14_explicit_quantisation", BONUS, "Eight bits and two nodes"),
    "qdq_insertion": Cell("14_explicit_quantisation", BONUS, "Pairs at the weighted layers"),
    "qdq_skips": Cell("14_explicit_quantisation", BONUS, "Skip branches"),
    "qdq_engine": Cell("14_explicit_quantisation", BONUS, "Explicit engine"),
    "qdq_results": Cell("14_explicit_quantisation", BONUS, "Explicit INT8 of the lab's model"),
    "engine_cases": Cell("16_cases", BONUS, "Cases of the engine department"),
    "clock_cases": Cell("16_cases", BONUS, "Cases of the clock department"),
    "scores_cases": Cell("16_cases", BONUS, "Cases of the scores department"),
}
"""Every graded cell by its nbgrader grade_id; `analysis` is the one that a person reads."""


@dataclass(frozen=True)
class Earned:
    """A share of a claim's points, 0 to 1, with the evidence; `missed` says what the rest asks for."""

    share: float
    evidence: str
    missed: Missed | None = None


Judge = Callable[[Case], "str | Earned"]


def shared(parts: Sequence[Callable[[], "str | Earned"]]) -> Earned:
    """Run the parts of a claim: each earns the same share, and the first thing that one missed is told."""
    found = [_part(judge) for judge in parts]
    missed = next((part.missed for part in found if part.missed), None)
    evidence = "; ".join(part.evidence for part in found if part.evidence)
    return Earned(sum(part.share for part in found) / len(found), evidence, missed)


def _part(judge: Callable[[], "str | Earned"]) -> Earned:
    try:
        outcome = judge()
    except Missed as missed:
        return Earned(0.0, "", missed)
    return outcome if isinstance(outcome, Earned) else Earned(1.0, outcome)


@dataclass(frozen=True)
class Claim:
    """One thing that is claimed of a submission, and what it is worth; `reported` is what nobody else can see."""

    name: str
    cell: str
    points: float
    title: str
    judge: Judge
    reported: Reported | None = None

    @property
    def self_reported(self) -> float:
        """The points of it that the student's side decides by what it says of itself."""
        return self.points * self.reported.share if self.reported else 0.0


_CLAIMS: dict[str, Claim] = {}


def award(name: str, points: float, point: Point, *, cell: str) -> None:
    """Register a step's point as a claim of `cell`, worth `points`; claims run in the order they are registered in."""
    claim(name, cell=cell, points=points, title=point.title, reported=point.reported)(point.judge)


def claim(
    name: str, *, cell: str, points: float, title: str, reported: Reported | None = None
) -> Callable[[Judge], Judge]:
    """Register the decorated function as a claim of `cell`; what it calls must not ask for what `reported` asks for."""

    def register(judge: Judge) -> Judge:
        if cell not in CELLS or name in _CLAIMS:
            raise ValueError(f"claim {name} of cell {cell}: the name is taken or the cell unknown")
        _CLAIMS[name] = Claim(name, cell, points, title, judge, reported)
        return judge

    return register


def claims_of(cell: str) -> list[Claim]:
    """Return the claims of a test cell in order; of the steps' rooms only its own is imported, and registers them."""
    importlib.import_module(f"solutions.checks.s{CELLS[cell].step}")
    return [found for found in _CLAIMS.values() if found.cell == cell]
