"""The case files of step 16: what lies on the table, what makes engines of it, and how a finding is written down.

from helpers.toys.casefiles import Finding, case_files
case = case_files("engine")[0]            # report, build, cache, onnx: data alone
case.engine()                             # built on this machine as its record says
Finding("one_scale", 0.03)                # the cause, and the number that proves it
"""

import math
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx

from helpers.engine.backend import cuda, trt
from helpers.engine.given import recorded_engine
from helpers.engine.layers import engine_layers, layer_precision
from helpers.tools.files import read_json
from helpers.tools.outputs import onnx_session
from trtcpu.calibration_cache import parse_cache
from trtcpu.errors import InputError, LabError

EDGE = 24
"""Height and width of the cases' pictures."""

NOTHING = "nothing_wrong"
"""The verdict on a healthy case; its evidence does not matter."""

CAUSES = {
    "engine": {
        "not_int8": "how many convolutions do not run in INT8",
        "other_model": "number of tensors without a fitting range in the cache",
        "not_normalised": "the input's range in the cache",
        "factor_127": "the median of the ranges in the cache over the measured ones",
        "one_scale": "that tensor's range in the cache over the measured one",
        "small_profile": "the largest batch that the engine takes",
    },
    "clock": {
        "launch_time": "the mean latency that should have been reported, ms",
        "warmup_counted": "the mean latency that should have been reported, ms",
        "batches_counted": "the throughput that should have been reported, images/s",
        "p95_for_p99": "the p99 that should have been reported, ms",
    },
    "scores": {
        "channels_reversed": "top-1 with the input as it should be, percent",
        "pixels_fed": "top-1 with the input as it should be, percent",
        "late_read": "top-1 with each answer in its own row, percent",
        "labels_shifted": "top-1 with the labels' numbers put right, percent",
        "top5_for_top1": "the top-1 that should have been reported, percent",
        "fraction": "the top-1 that should have been reported, percent",
    },
}
"""The causes of each department, and the number that proves each."""

CASES_FOLDER = Path(__file__).resolve().parents[2] / "datasets" / "cases"
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Finding(NamedTuple):
    """What an examination ends with: one of CAUSES or NOTHING, and the number that proves it."""

    cause: str
    evidence: float = math.nan


@dataclass(frozen=True)
class CaseFile:
    """One case. Which fields are there depends on the department: engine, clock or scores.

    Attributes:
        number: of the case; it says nothing about it.
        department: where the complaint arrived.
        story: who complains, and of what.
        report: what was reported, by name.
        onnx: the model; input `input` [N, 3, 24, 24], output `output` [N, 10].
        cache: the calibration cache, as TensorRT writes it.
        build: how the engine was built: `flags`, `layers` (name → precision that it was held in), `profile` (min, opt
            and max batch).
        calls: float64 [calls, 3], a row a call in order: when it started, when it had been enqueued, when its results
            were there; ms. The first `report["warmup"]` rows are warm-up.
        pictures: uint8 [N, 24, 24, 3], RGB: what was classified, or what a right calibration sees.
        fed: float32 [n, 3, 24, 24]: what the engine was given for the first n pictures.
        scores: float32 [N, 10]: what the service noted as the engine's answers.
        labels: int64 [N].
    """

    department: str
    report: dict[str, Any]
    number: str = ""
    story: str = ""
    onnx: bytes = b""
    cache: bytes = b""
    build: dict[str, Any] = field(default_factory=dict)
    calls: np.ndarray | None = None
    pictures: np.ndarray | None = None
    fed: np.ndarray | None = None
    scores: np.ndarray | None = None
    labels: np.ndarray | None = None

    def engine(self) -> "trt.ICudaEngine":
        """Return the engine, built on this machine from the model, the cache's scales and the record of the build.

        Raises:
            LabError: TensorRT cannot build it; its log says why.
        """
        scales = parse_cache(self.cache).scales
        ranges = {name: 127 * scale for name, scale in scales.items()}
        least, best, most = self.build["profile"]
        plan = recorded_engine(self.onnx, (least, best, most), self.build["flags"], ranges, self.build["layers"])
        if plan is None:
            raise LabError(f"case {self.number or 'without a number'}: no engine could be built; the log says why")
        return trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)


def case_files(department: str | None = None, folder: str | Path = CASES_FOLDER) -> list[CaseFile]:
    """Return the cases in `folder`, in the order of their numbers; with `department`, its own alone.

    Raises:
        InputError: there is no such case, or its description cannot be read.
    """
    found = [_read(about.parent) for about in sorted(Path(folder).glob("*/case.json"))]
    chosen = [case for case in found if department in (None, case.department)]
    if not chosen:
        raise InputError(f"no case of department {department!r} in {folder}; the departments are {', '.join(CAUSES)}")
    return chosen


def _read(place: Path) -> CaseFile:
    about = read_json(place / "case.json", "case file")
    taken = about.pop("pictures", None)
    files = {
        "onnx": ("model.onnx", Path.read_bytes),
        "cache": ("calibration.cache", Path.read_bytes),
        "calls": ("calls.csv", _read_calls),
        "fed": ("fed.npy", _read_array),
        "scores": ("scores.npy", _read_array),
    }
    held = {name: read(place / file) for name, (file, read) in files.items() if (place / file).is_file()}
    labels = about.pop("labels", None)
    return CaseFile(
        **about,
        **held,
        number=place.name,
        labels=None if labels is None else np.array(labels, np.int64),
        pictures=None if taken is None else pictures(**taken),
    )


def _read_calls(path: Path) -> np.ndarray:
    return np.loadtxt(StringIO(path.read_text()), delimiter=",", skiprows=1, ndmin=2)


def _read_array(path: Path) -> np.ndarray:
    return np.load(path, allow_pickle=False).astype(np.float32)


def pictures(seed: int, number: int) -> np.ndarray:
    """Return uint8 [number, 24, 24, 3], RGB: a disc of one colour on a shaded ground of another, and some noise."""
    random = np.random.RandomState(seed)
    ground, disc = random.uniform(0, 255, (2, number, 1, 1, 3))
    slope = random.uniform(-60, 60, (2, number, 1, 1, 1))
    middle, radius = random.uniform(6, 18, (2, number, 1, 1, 1)), random.uniform(3, 9, (number, 1, 1, 1))
    rows, columns = np.mgrid[:EDGE, :EDGE][:, None, :, :, None]
    shaded = ground + slope[0] * (rows / EDGE - 0.5) + slope[1] * (columns / EDGE - 0.5)
    inside = (rows - middle[0]) ** 2 + (columns - middle[1]) ** 2 < radius**2
    noise = random.uniform(-12, 12, (number, EDGE, EDGE, 3))
    return np.clip(np.where(inside, disc, shaded) + noise, 0, 255).astype(np.uint8)


def prepared(images: np.ndarray) -> np.ndarray:
    """Return what the models were trained on, float32 [N, 3, H, W], of pictures uint8 [N, H, W, 3] in RGB."""
    scaled = (images.astype(np.float32) / 255 - np.float32(_MEAN)) / np.float32(_STD)
    return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2))


def tensor_ranges(model: bytes, inputs: np.ndarray) -> dict[str, float]:
    """Return the largest magnitude of the input and of each node's output, by tensor, as ONNX Runtime computes in FP32.

    Args:
        model: ONNX, with one input.
        inputs: float32 [N, 3, H, W].
    """
    graph = onnx.load_from_string(model)
    names = [name for node in graph.graph.node for name in node.output]
    del graph.graph.output[:]
    graph.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    session = onnx_session(graph.SerializeToString())
    entry = session.get_inputs()[0].name
    arrays = [inputs, *session.run(names, {entry: inputs})]
    return {name: float(np.abs(array).max()) for name, array in zip([entry, *names], arrays, strict=True)}


def convolution_precisions(case: CaseFile, engine: "trt.ICudaEngine") -> dict[str, str]:
    """Return the precision that each of the model's convolutions runs in ("int8", "fp32", …), as the inspector says."""
    nodes = [node.name for node in onnx.load_from_string(case.onnx).graph.node if node.op_type == "Conv"]
    layers = [layer for layer in engine_layers(engine) if "Conv" in str(layer.get("LayerType", ""))]
    running = [(str(layer.get("Name", "")).split(), layer_precision(layer)) for layer in layers]
    return {node: next((ran for parts, ran in running if node in parts), "other") for node in nodes}


def largest_batch(engine: "trt.ICudaEngine") -> int:
    """Return the largest batch that an engine's first profile takes."""
    return int(tuple(engine.get_tensor_profile_shape("input", 0)[2])[0])


def engine_scores(engine: "trt.ICudaEngine", inputs: np.ndarray) -> np.ndarray:
    """Return an engine's scores, float32 [N, 10], for float32 [N, 3, 24, 24] of at most its largest batch."""
    context, stream = engine.create_execution_context(), cuda.Stream()
    context.set_input_shape("input", inputs.shape)
    scores = np.empty(tuple(context.get_tensor_shape("output")), np.float32)
    places = {"input": cuda.mem_alloc(inputs.nbytes), "output": cuda.mem_alloc(scores.nbytes)}
    for name, place in places.items():
        context.set_tensor_address(name, int(place))
    cuda.memcpy_htod(places["input"], np.ascontiguousarray(inputs))
    context.execute_async_v3(stream.handle)
    stream.synchronize()
    cuda.memcpy_dtoh(scores, places["output"])
    return scores
