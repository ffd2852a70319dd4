"""The steps of the lab, and the artifacts that each hands on."""

from helpers.course.settings import ONNX_FILE
from trtcpu.errors import InputError

STEPS = (
    "01_export",
    "02_fp16",
    "03_dynamic",
    "04_int8",
    "05_inference",
    "06_benchmark",
    "07_accuracy",
    "08_report",
)
"""The steps of the 100 points."""

BONUS: tuple[str, ...] = (
    "09_mixed_precision",
    "10_profiles_and_streams",
    "11_bert",
    "12_layer_profiling",
    "13_compilers",
    "14_explicit_quantisation",
    "16_cases",
)
"""The optional steps; their points are a bonus beside the 100."""

CHAPTERS: tuple[str, ...] = ("15_llm",)
"""To be read and run: no task, no points."""

GRADED = STEPS + BONUS
NOTEBOOKS = tuple(sorted(GRADED + CHAPTERS))

START = "00_start.ipynb"
"""The notebook that `make jupyter` opens; it is no step."""

ARTIFACTS = {
    "resnet50.onnx": "01_export",
    ONNX_FILE: "01_export",
    "resnet50_fp16.engine": "02_fp16",
    "resnet50_dynamic_fp16.engine": "03_dynamic",
    "resnet50_fp32.engine": "03_dynamic",
    "resnet50_int8.engine": "04_int8",
    "resnet50_calib.cache": "04_int8",
    "inference.py": "05_inference",
    "latency.json": "06_benchmark",
    "throughput.json": "06_benchmark",
    "accuracy.json": "07_accuracy",
    "report.json": "08_report",
    "report.html": "08_report",
    "latency.png": "08_report",
    "throughput.png": "08_report",
    "speedup.png": "08_report",
    "accuracy.png": "08_report",
    "resnet50_mixed.engine": "09_mixed_precision",
    "sensitivity.json": "09_mixed_precision",
    "bert.onnx": "11_bert",
    "bert_fp32.engine": "11_bert",
    "bert_fp16.engine": "11_bert",
    "bert_int8.engine": "11_bert",
    "bert_calib.cache": "11_bert",
    "compilers.json": "13_compilers",
    "resnet50_qdq.onnx": "14_explicit_quantisation",
    "resnet50_qdq.engine": "14_explicit_quantisation",
    "explicit.json": "14_explicit_quantisation",
}
"""Every file that a step hands on, and the step that makes it."""


def made_by(name: str) -> str:
    """Return the step that makes the artifact `name`, such as "04_int8".

    Raises:
        InputError: no step makes a file of that name.
    """
    if name not in ARTIFACTS:
        raise InputError(f"no step makes {name!r}; the artifacts are {', '.join(ARTIFACTS)}")
    return ARTIFACTS[name]
