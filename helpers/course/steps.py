"""The table of steps: what each is called and asks for, which files it needs and makes, and its graded cells.

Whatever lists the steps reads them here: the notebooks' helpers, grading, the hand-out, the start page and the site.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from helpers.course.settings import ENGINES, ONNX_FILE
from helpers.tools.term import FILE, TERM, Term
from trtcpu.errors import InputError, SettingError

CRITERIA = ("correctness", "performance", "accuracy", "documentation")
"""What the 100 points are for."""

BONUS = "bonus"
"""The criterion of the optional steps; its points are never part of the 100."""

COLUMNS = (*CRITERIA, BONUS)


@dataclass(frozen=True)
class Cell:
    """A graded cell: the criterion that its points count for, its name for readers, its points, its notebook's step."""

    criterion: str
    title: str
    points: float
    step: str = ""

    @property
    def timed(self) -> bool:
        """Whether its claims, or what the notebook does for them, measure time: nothing may run beside it then."""
        return self.criterion == "performance"


@dataclass(frozen=True)
class Step:
    """One notebook of the lab; one without points is a chapter to read."""

    name: str
    """As its folder and its notebook are called; its two digits give the order."""
    title: str
    about: str
    """What it is about, in a line."""
    minutes: int
    """An estimate, reading included."""
    optional: bool = True
    writes: tuple[str, ...] = ()
    """The functions and classes that a student writes."""
    needs: tuple[str, ...] = ()
    """The artifacts that it takes from the steps before it."""
    makes: tuple[str, ...] = ()
    """The artifacts that it hands on."""
    images: bool = False
    """Whether its notebook reads images of the digits."""
    cells: Mapping[str, Cell] = field(default_factory=dict)
    """Its graded cells by their nbgrader grade_id."""

    @property
    def points(self) -> float:
        """The sum of its cells' points; a bonus if the step is optional."""
        return sum(cell.points for cell in self.cells.values())


_CACHE, _CLASS = "resnet50_calib.cache", "inference.py"
_ENGINES = tuple(ENGINES.values())
_MEASUREMENTS = ("latency.json", "throughput.json", "accuracy.json")

_LAB = (
    Step(
        "01_export",
        "export",
        "PyTorch to ONNX, simplified and validated",
        minutes=30,
        images=True,
        optional=False,
        writes=("export_onnx", "simplify_onnx"),
        makes=("resnet50.onnx", ONNX_FILE),
        cells={
            "export_model": Cell("correctness", "Export to ONNX", 3.25),
            "simplify_model": Cell("correctness", "Simplify the graph", 1.25),
            "export_files": Cell("correctness", "The two files", 0.5),
        },
    ),
    Step(
        "02_fp16",
        "FP16",
        "an FP16 engine: builder, parser, workspace",
        minutes=35,
        optional=False,
        writes=("build_engine_fp16",),
        needs=(ONNX_FILE,),
        makes=("resnet50_fp16.engine",),
        cells={
            "fp16_engine": Cell("correctness", "FP16 engine", 6),
            "fp16_speed": Cell("performance", "FP16 engine: speed", 5),
        },
    ),
    Step(
        "03_dynamic",
        "dynamic shapes",
        "dynamic shapes: an optimization profile, where throughput saturates",
        minutes=40,
        optional=False,
        writes=("build_engine_dynamic", "images_per_second", "saturation_batch"),
        needs=(ONNX_FILE,),
        makes=(ENGINES["fp16"], ENGINES["fp32"]),
        cells={
            "dynamic_engine": Cell("correctness", "Dynamic engine", 6),
            "dynamic_speed": Cell("performance", "Dynamic engine: speed and saturation", 4),
        },
    ),
    Step(
        "04_int8",
        "INT8",
        "INT8: data set, calibrator, thresholds, calibration cache",
        minutes=60,
        images=True,
        optional=False,
        writes=("CalibrationDataset", "Int8EntropyCalibrator", "build_engine_int8"),
        needs=(ONNX_FILE,),
        makes=(ENGINES["int8"], _CACHE),
        cells={
            "calibration_dataset": Cell("correctness", "Calibration images", 4),
            "calibrator": Cell("correctness", "Calibrator", 4),
            "int8_engine": Cell("correctness", "INT8 engine", 3),
            "int8_calibration": Cell("correctness", "Calibrated engine", 2),
            "int8_speed": Cell("performance", "INT8 engine: speed", 6),
        },
    ),
    Step(
        "05_inference",
        "inference",
        "the inference class: buffers, copies, streams",
        minutes=40,
        images=True,
        optional=False,
        writes=("TensorRTInference",),
        needs=_ENGINES,
        makes=(_CLASS,),
        cells={"inference_class": Cell("correctness", "TensorRTInference", 10)},
    ),
    Step(
        "06_benchmark",
        "benchmark",
        "latency and throughput, measured right",
        minutes=40,
        optional=False,
        writes=("benchmark_latency", "benchmark_throughput"),
        needs=(*_ENGINES, _CLASS),
        makes=("latency.json", "throughput.json"),
        cells={
            "benchmark_latency": Cell("performance", "Latency", 6.5),
            "benchmark_throughput": Cell("performance", "Throughput", 4.25),
            "benchmark_results": Cell("performance", "Measurements", 4.25),
        },
    ),
    Step(
        "07_accuracy",
        "accuracy",
        "accuracy, and whether a loss is one",
        minutes=30,
        images=True,
        optional=False,
        writes=("evaluate_accuracy",),
        needs=(*_ENGINES, _CLASS),
        makes=("accuracy.json",),
        cells={
            "evaluate_accuracy": Cell("accuracy", "evaluate_accuracy", 9),
            "accuracy_results": Cell("accuracy", "accuracy.json", 6),
        },
    ),
    Step(
        "08_report",
        "report",
        "the report",
        minutes=45,
        optional=False,
        writes=("build_report", "draw_charts", "write_page", "key_figures", "write_analysis"),
        needs=(ONNX_FILE, *_ENGINES, *_MEASUREMENTS),
        makes=("report.json", "report.html", "latency.png", "throughput.png", "speedup.png", "accuracy.png"),
        cells={
            "report_numbers": Cell("documentation", "Report", 4),
            "report_charts": Cell("documentation", "Charts and page", 3),
            "analysis_figures": Cell("documentation", "Analysis: figures and length", 2),
            "analysis": Cell("documentation", "Analysis: the text", 6),  # a person reads it
        },
    ),
    Step(
        "09_mixed_precision",
        "mixed precision",
        "which layers INT8 harms, and an engine that keeps them in FP16",
        minutes=50,
        images=True,
        writes=("keep_in_half", "CacheReader", "build_engine_mixed", "sensitivity", "choose_groups"),
        needs=(ONNX_FILE, _CACHE, ENGINES["int8"], _CLASS),
        makes=("resnet50_mixed.engine", "sensitivity.json"),
        cells={
            "mixed_layers": Cell(BONUS, "Layers kept in FP16", 0.75),
            "mixed_engine": Cell(BONUS, "Mixed engine", 1.25),
            "mixed_sensitivity": Cell(BONUS, "Sensitivity", 0.75),
            "mixed_choice": Cell(BONUS, "The smallest set", 0.75),
            "mixed_results": Cell(BONUS, "Mixed precision of the lab's model", 1.5),
        },
    ),
    Step(
        "10_profiles_and_streams",
        "profiles and streams",
        "several profiles in one engine, two streams, CUDA graphs",
        minutes=70,
        writes=("build_engine_profiles", "pick_profile", "run_batches"),
        needs=(ONNX_FILE,),
        cells={
            "profiles_engine": Cell(BONUS, "Several profiles", 2),
            "streamed_batches": Cell(BONUS, "Batches through several streams", 2),
        },
    ),
    Step(
        "11_bert",
        "BERT",
        "BERT: three inputs, dynamic length, FP16 and INT8",
        minutes=70,
        writes=("export_bert", "TextCalibrator", "build_engine_bert", "mean_pool", "make_batches"),
        makes=("bert.onnx", "bert_fp32.engine", "bert_fp16.engine", "bert_int8.engine", "bert_calib.cache"),
        cells={
            "bert_export": Cell(BONUS, "Export BERT", 1),
            "bert_calibrator": Cell(BONUS, "Calibrate on text", 0.75),
            "bert_engine": Cell(BONUS, "BERT's engines", 1.5),
            "bert_pooling": Cell(BONUS, "Sentence vectors", 0.5),
            "bert_batches": Cell(BONUS, "Batches by length", 1.25),
        },
    ),
    Step(
        "12_layer_profiling",
        "layer profiling",
        "time by layer, arithmetic intensity, a measured roofline",
        minutes=60,
        writes=(
            *("LayerTimes", "profile_layers", "slowest", "layer_flops", "moved_bytes", "bound"),
            "read_trtexec_profile",
        ),
        needs=(ONNX_FILE, ENGINES["fp16"], ENGINES["int8"]),
        cells={
            "layer_times": Cell(BONUS, "Layer times", 1.5),
            "layer_bounds": Cell(BONUS, "What bounds a layer", 1.5),
            "trtexec_profile": Cell(BONUS, "trtexec's profile", 1),
        },
    ),
    Step(
        "13_compilers",
        "compilers",
        "PyTorch, torch.compile, ONNX Runtime and the engine, timed twice",
        minutes=55,
        writes=("time_with_host_clock", "time_with_events", "compile_seconds", "build_plan", "break_even"),
        makes=("compilers.json",),
        cells={
            "compilers_clocks": Cell(BONUS, "Two clocks", 1.75),
            "compilers_costs": Cell(BONUS, "What compiling costs", 1.25),
        },
    ),
    Step(
        "14_explicit_quantisation",
        "explicit quantisation",
        "INT8 written into the ONNX file: Q/DQ nodes, naive and fused, strong typing, both APIs",
        minutes=70,
        images=True,
        writes=("quantize_weights", "make_pair", "weighted_inputs", "insert_qdq", "skip_branches", "build_explicit"),
        needs=(ONNX_FILE, _CACHE, ENGINES["int8"], ENGINES["fp16"], _CLASS),
        makes=("resnet50_qdq.onnx", "resnet50_qdq.engine", "explicit.json"),
        cells={
            "qdq_pair": Cell(BONUS, "Eight bits and two nodes", 1),
            "qdq_insertion": Cell(BONUS, "Pairs at the weighted layers", 1.5),
            "qdq_skips": Cell(BONUS, "Skip branches", 1),
            "qdq_engine": Cell(BONUS, "Explicit engine", 1.25),
            "qdq_results": Cell(BONUS, "Explicit INT8 of the lab's model", 1.25),
        },
    ),
    Step("15_llm", "language models", "a chapter to read: how language models are served", minutes=25),
    Step(
        "16_cases",
        "detective cases",
        "detective cases: engines, logs and reports that are wrong",
        minutes=75,
        writes=("inspect_engine", "check_clock", "check_scores"),
        cells={
            "engine_cases": Cell(BONUS, "Cases of the engine department", 1),
            "clock_cases": Cell(BONUS, "Cases of the clock department", 1),
            "scores_cases": Cell(BONUS, "Cases of the scores department", 1),
        },
    ),
)


def taught(term: Term) -> tuple[Step, ...]:
    """Return the lab's steps that a course has, with the points that it gives.

    Raises:
        SettingError: the lab has no such step or cell, a cell would have no points, or they don't make the total.
    """
    lab = {step.name: step for step in _LAB}
    cells = {name: cell for step in _LAB for name, cell in step.cells.items()}
    for kind, names, known in (
        ("step", (*term.steps, *term.deadlines), lab),
        ("graded cell", term.points, cells),
    ):
        if unknown := [name for name in names if name not in known]:
            raise SettingError(f"{FILE}: the lab has no {kind} {unknown[0]!r}; it has {', '.join(known)}")
    if nothing := [name for name, points in term.points.items() if not points]:
        raise SettingError(f"{FILE}: the cell {nothing[0]} would have no points; leave out its step instead")
    steps = tuple(_worth(step, term) for step in _LAB if not term.steps or step.name in term.steps)
    total = sum(step.points for step in steps if not step.optional)
    if term.total and abs(total - term.total) > 1e-6:
        raise SettingError(f"{FILE}: the points of the steps sum to {total:g}, not to the total of {term.total:g}")
    return steps


def _worth(step: Step, term: Term) -> Step:
    """Return the step with the points that the course gives."""
    cells = {
        name: replace(cell, step=step.name, points=term.points.get(name, cell.points))
        for name, cell in step.cells.items()
    }
    return replace(step, cells=cells)


LAB = tuple(step.name for step in _LAB)
"""All steps of the lab, also those that this course does not have."""

TABLE = taught(TERM)
BY_NAME = {step.name: step for step in TABLE}
NOTEBOOKS = tuple(BY_NAME)
STEPS = tuple(step.name for step in TABLE if not step.optional)
"""The steps of the 100 points."""

OPTIONAL = tuple(step.name for step in TABLE if step.optional and step.points)
"""The optional steps; their points are a bonus beside the 100."""

CHAPTERS = tuple(step.name for step in TABLE if not step.points)
"""To be read and run: no task, no points."""

GRADED = STEPS + OPTIONAL

ARTIFACTS = {name: step.name for step in _LAB for name in step.makes}
"""Every file that a step of the lab hands on, and the step that makes it; the reference lends what is not taught."""

CELLS = {name: cell for step in _LAB for name, cell in _worth(step, TERM).cells.items()}
"""Every graded cell of the lab by its nbgrader grade_id."""

START = "00_start.ipynb"
"""The notebook that `make jupyter` opens; it is no step."""


def made_by(name: str) -> str:
    """Return the step that makes the artifact `name`, such as "04_int8".

    Raises:
        InputError: no step makes a file of that name.
    """
    if name not in ARTIFACTS:
        raise InputError(f"no step makes {name!r}; the artifacts are {', '.join(ARTIFACTS)}")
    return ARTIFACTS[name]
