"""The table of steps: what each is called and asks for, which files it needs and makes, and its graded cells.

Whatever lists the steps reads them here: the notebooks' helpers, grading, the hand-out, the start page and the site.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from helpers.course.settings import ENGINES, ONNX_FILE
from trtcpu.errors import InputError

CRITERIA = ("correctness", "performance", "accuracy", "documentation")
"""What the 100 points are for."""

BONUS = "bonus"
"""The criterion of the optional steps; its points are never part of the 100."""

COLUMNS = (*CRITERIA, BONUS)


@dataclass(frozen=True)
class Cell:
    """A test cell: the criterion that its points count for, its name for readers, and the step of its notebook."""

    criterion: str
    title: str
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
    points: int = 0
    """The sum over its test cells; a bonus where the step is optional."""
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


_CACHE, _CLASS = "resnet50_calib.cache", "inference.py"
_ENGINES = tuple(ENGINES.values())
_MEASUREMENTS = ("latency.json", "throughput.json", "accuracy.json")

TABLE = (
    Step(
        "01_export",
        "export",
        "PyTorch to ONNX, simplified and validated",
        minutes=30,
        images=True,
        points=5,
        optional=False,
        writes=("export_onnx", "simplify_onnx"),
        makes=("resnet50.onnx", ONNX_FILE),
        cells={
            "export_model": Cell("correctness", "Export to ONNX"),
            "simplify_model": Cell("correctness", "Simplify the graph"),
            "export_files": Cell("correctness", "The two files"),
        },
    ),
    Step(
        "02_fp16",
        "FP16",
        "an FP16 engine: builder, parser, workspace",
        minutes=35,
        points=11,
        optional=False,
        writes=("build_engine_fp16",),
        needs=(ONNX_FILE,),
        makes=("resnet50_fp16.engine",),
        cells={
            "fp16_engine": Cell("correctness", "FP16 engine"),
            "fp16_speed": Cell("performance", "FP16 engine: speed"),
        },
    ),
    Step(
        "03_dynamic",
        "dynamic shapes",
        "dynamic shapes: an optimization profile, where throughput saturates",
        minutes=40,
        points=10,
        optional=False,
        writes=("build_engine_dynamic", "images_per_second", "saturation_batch"),
        needs=(ONNX_FILE,),
        makes=(ENGINES["fp16"], ENGINES["fp32"]),
        cells={
            "dynamic_engine": Cell("correctness", "Dynamic engine"),
            "dynamic_speed": Cell("performance", "Dynamic engine: speed and saturation"),
        },
    ),
    Step(
        "04_int8",
        "INT8",
        "INT8: data set, calibrator, calibration cache",
        minutes=60,
        images=True,
        points=19,
        optional=False,
        writes=("CalibrationDataset", "Int8EntropyCalibrator", "build_engine_int8"),
        needs=(ONNX_FILE,),
        makes=(ENGINES["int8"], _CACHE),
        cells={
            "calibration_dataset": Cell("correctness", "Calibration images"),
            "calibrator": Cell("correctness", "Calibrator"),
            "int8_engine": Cell("correctness", "INT8 engine"),
            "int8_calibration": Cell("correctness", "Calibrated engine"),
            "int8_speed": Cell("performance", "INT8 engine: speed"),
        },
    ),
    Step(
        "05_inference",
        "inference",
        "the inference class: buffers, copies, streams",
        minutes=40,
        images=True,
        points=10,
        optional=False,
        writes=("TensorRTInference",),
        needs=_ENGINES,
        makes=(_CLASS,),
        cells={"inference_class": Cell("correctness", "TensorRTInference")},
    ),
    Step(
        "06_benchmark",
        "benchmark",
        "latency and throughput, measured right",
        minutes=40,
        points=15,
        optional=False,
        writes=("benchmark_latency", "benchmark_throughput"),
        needs=(*_ENGINES, _CLASS),
        makes=("latency.json", "throughput.json"),
        cells={
            "benchmark_latency": Cell("performance", "Latency"),
            "benchmark_throughput": Cell("performance", "Throughput"),
            "benchmark_results": Cell("performance", "Measurements"),
        },
    ),
    Step(
        "07_accuracy",
        "accuracy",
        "accuracy, and whether a loss is one",
        minutes=30,
        images=True,
        points=15,
        optional=False,
        writes=("evaluate_accuracy",),
        needs=(*_ENGINES, _CLASS),
        makes=("accuracy.json",),
        cells={
            "evaluate_accuracy": Cell("accuracy", "evaluate_accuracy"),
            "accuracy_results": Cell("accuracy", "accuracy.json"),
        },
    ),
    Step(
        "08_report",
        "report",
        "the report",
        minutes=45,
        points=15,
        optional=False,
        writes=("build_report", "draw_charts", "write_page", "key_figures", "write_analysis"),
        needs=(ONNX_FILE, *_ENGINES, *_MEASUREMENTS),
        makes=("report.json", "report.html", "latency.png", "throughput.png", "speedup.png", "accuracy.png"),
        cells={
            "report_numbers": Cell("documentation", "Report"),
            "report_charts": Cell("documentation", "Charts and page"),
            "analysis_figures": Cell("documentation", "Analysis: figures and length"),
            "analysis": Cell("documentation", "Analysis: the text"),  # a person reads it
        },
    ),
    Step(
        "09_mixed_precision",
        "mixed precision",
        "which layers INT8 harms, and an engine that keeps them in FP16",
        minutes=50,
        images=True,
        points=5,
        writes=("keep_in_half", "CacheReader", "build_engine_mixed", "sensitivity", "choose_groups"),
        needs=(ONNX_FILE, _CACHE, ENGINES["int8"], _CLASS),
        makes=("resnet50_mixed.engine", "sensitivity.json"),
        cells={
            "mixed_layers": Cell(BONUS, "Layers kept in FP16"),
            "mixed_engine": Cell(BONUS, "Mixed engine"),
            "mixed_sensitivity": Cell(BONUS, "Sensitivity"),
            "mixed_choice": Cell(BONUS, "The smallest set"),
            "mixed_results": Cell(BONUS, "Mixed precision of the lab's model"),
        },
    ),
    Step(
        "10_profiles_and_streams",
        "profiles and streams",
        "several profiles in one engine, two streams, CUDA graphs",
        minutes=70,
        points=4,
        writes=("build_engine_profiles", "pick_profile", "run_batches"),
        needs=(ONNX_FILE,),
        cells={
            "profiles_engine": Cell(BONUS, "Several profiles"),
            "streamed_batches": Cell(BONUS, "Batches through several streams"),
        },
    ),
    Step(
        "11_bert",
        "BERT",
        "BERT: three inputs, dynamic length, FP16 and INT8",
        minutes=70,
        points=5,
        writes=("export_bert", "TextCalibrator", "build_engine_bert", "mean_pool", "make_batches"),
        makes=("bert.onnx", "bert_fp32.engine", "bert_fp16.engine", "bert_int8.engine", "bert_calib.cache"),
        cells={
            "bert_export": Cell(BONUS, "Export BERT"),
            "bert_calibrator": Cell(BONUS, "Calibrate on text"),
            "bert_engine": Cell(BONUS, "BERT's engines"),
            "bert_pooling": Cell(BONUS, "Sentence vectors"),
            "bert_batches": Cell(BONUS, "Batches by length"),
        },
    ),
    Step(
        "12_layer_profiling",
        "layer profiling",
        "time by layer, arithmetic intensity, a measured roofline",
        minutes=60,
        points=4,
        writes=(
            *("LayerTimes", "profile_layers", "slowest", "layer_flops", "moved_bytes", "bound"),
            "read_trtexec_profile",
        ),
        needs=(ONNX_FILE, ENGINES["fp16"], ENGINES["int8"]),
        cells={
            "layer_times": Cell(BONUS, "Layer times"),
            "layer_bounds": Cell(BONUS, "What bounds a layer"),
            "trtexec_profile": Cell(BONUS, "trtexec's profile"),
        },
    ),
    Step(
        "13_compilers",
        "compilers",
        "PyTorch, torch.compile, ONNX Runtime and the engine, timed twice",
        minutes=55,
        points=3,
        writes=("time_with_host_clock", "time_with_events", "compile_seconds", "build_plan", "break_even"),
        makes=("compilers.json",),
        cells={
            "compilers_clocks": Cell(BONUS, "Two clocks"),
            "compilers_costs": Cell(BONUS, "What compiling costs"),
        },
    ),
    Step(
        "14_explicit_quantisation",
        "explicit quantisation",
        "INT8 written into the ONNX file: Q/DQ nodes, naive and fused, strong typing, both APIs",
        minutes=70,
        images=True,
        points=6,
        writes=("quantize_weights", "make_pair", "weighted_inputs", "insert_qdq", "skip_branches", "build_explicit"),
        needs=(ONNX_FILE, _CACHE, ENGINES["int8"], ENGINES["fp16"], _CLASS),
        makes=("resnet50_qdq.onnx", "resnet50_qdq.engine", "explicit.json"),
        cells={
            "qdq_pair": Cell(BONUS, "Eight bits and two nodes"),
            "qdq_insertion": Cell(BONUS, "Pairs at the weighted layers"),
            "qdq_skips": Cell(BONUS, "Skip branches"),
            "qdq_engine": Cell(BONUS, "Explicit engine"),
            "qdq_results": Cell(BONUS, "Explicit INT8 of the lab's model"),
        },
    ),
    Step("15_llm", "language models", "a chapter to read: how language models are served", minutes=25),
    Step(
        "16_cases",
        "detective cases",
        "detective cases: engines, logs and reports that are wrong",
        minutes=75,
        points=3,
        writes=("inspect_engine", "check_clock", "check_scores"),
        cells={
            "engine_cases": Cell(BONUS, "Cases of the engine department"),
            "clock_cases": Cell(BONUS, "Cases of the clock department"),
            "scores_cases": Cell(BONUS, "Cases of the scores department"),
        },
    ),
)

BY_NAME = {step.name: step for step in TABLE}
NOTEBOOKS = tuple(BY_NAME)
STEPS = tuple(step.name for step in TABLE if not step.optional)
"""The steps of the 100 points."""

OPTIONAL = tuple(step.name for step in TABLE if step.optional and step.points)
"""The optional steps; their points are a bonus beside the 100."""

CHAPTERS = tuple(step.name for step in TABLE if not step.points)
"""To be read and run: no task, no points."""

GRADED = STEPS + OPTIONAL

ARTIFACTS = {name: step.name for step in TABLE for name in step.makes}
"""Every file that a step hands on, and the step that makes it."""

CELLS = {name: replace(cell, step=step.name) for step in TABLE for name, cell in step.cells.items()}
"""Every graded cell by its nbgrader grade_id."""

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
