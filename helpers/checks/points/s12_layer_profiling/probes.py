"""The student's side of step 12: its functions on a context that reports known times, on known layers, on files."""

import tempfile
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from helpers.checks.probes.answer import Notebook, probe
from helpers.engine.backend import cuda, trt
from helpers.engine.fused_layers import FusedLayer, Node
from helpers.toys.networks import EDGE

PROFILE, SLOWEST = "profile_layers", "slowest"
FLOPS, BYTES, BOUND = "layer_flops", "moved_bytes", "bound"
READ = "read_trtexec_profile"

_NUMBERS = (int, float, np.number)

Times = list[list[Any]]
"""What one run reports: [layer, ms] in order."""

Profile = dict[str, float | str]
"""Milliseconds by layer, in the student's order; the name of a type where there is no number."""


class Profiled(TypedDict):
    """What `profile_known` answers."""

    times: Profile
    runs: int
    profiler: bool


class ProfiledEngine(TypedDict):
    """What `profile_engine` answers."""

    times: Profile
    runs: int


class Counts(TypedDict):
    """What `count_layers` answers."""

    flops: list[float]
    bytes: list[float]


class ReadFile(TypedDict):
    """What `read_file` answers."""

    times: Profile
    error: list[str]
    named: bool
    message: str


class _Context:
    """A context whose runs report what is given; `profiler` is what real ones have."""

    def __init__(self, reported: list[Times]) -> None:
        self.profiler: Any = None
        self.runs = 0
        self._reported = reported

    def run(self) -> None:
        times = self._reported[min(self.runs, len(self._reported) - 1)]
        self.runs += 1
        if self.profiler is not None:
            for name, ms in times:
                self.profiler.report_layer_time(name, ms)


@probe
def profile_known(notebook: Notebook, *, reported: list[Times], options: dict[str, int]) -> Profiled:
    """Profile a context whose runs report `reported`, one after the other; a run too many reports the last again."""
    context = _Context(reported)
    found = notebook[PROFILE](context, context.run, **options)
    profiler = isinstance(context.profiler, trt.IProfiler) or context.profiler is None
    return {"times": _times(found), "runs": context.runs, "profiler": profiler}


@probe
def profile_engine(notebook: Notebook, *, plan: bytes, runs: int, warmup: int) -> ProfiledEngine:
    """Profile a real engine of one input; `layers` are the names that its inspector gives, in order."""
    engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)
    context, stream, calls = engine.create_execution_context(), cuda.Stream(), []
    context.set_input_shape("input", (1, 3, EDGE, EDGE))
    buffers = {name: cuda.mem_alloc(4 * trt.volume(context.get_tensor_shape(name))) for name in ("input", "output")}
    for name, buffer in buffers.items():
        context.set_tensor_address(name, int(buffer))

    def run() -> None:
        calls.append(context.execute_async_v3(stream.handle))
        stream.synchronize()

    times = _times(notebook[PROFILE](context, run, runs=runs, warmup=warmup))
    return {"times": times, "runs": len(calls)}


@probe
def rank_layers(notebook: Notebook, *, times: Times, number: int) -> list[list[str | float]]:
    """Return the rows of `slowest`, as lists of numbers and texts."""
    return [list(map(_number_or_text, row)) for row in notebook[SLOWEST](dict(map(tuple, times)), number)]


@probe
def count_layers(notebook: Notebook, *, layers: list[dict[str, Any]], item_bytes: int = 1) -> Counts:
    """Return FLOPs and bytes of layers given as data."""
    made = [_layer(layer) for layer in layers]
    return {
        "flops": [float(notebook[FLOPS](layer)) for layer in made],
        "bytes": [float(notebook[BYTES](layer, item_bytes)) for layer in made],
    }


@probe
def bound_layers(notebook: Notebook, *, cases: list[dict[str, float]]) -> list[list[str | float]]:
    """Return what `bound` says of each case, as lists of numbers and texts."""
    said = [notebook[BOUND](case["flops"], case["moved"], case["gflops"], case["gb_s"]) for case in cases]
    return [list(map(_number_or_text, each)) for each in said]


@probe
def read_file(notebook: Notebook, *, content: bytes, name: str, as_text: bool = False) -> ReadFile:
    """Read a file of these bytes and this name; `as_text` gives the path as a string.

    Returns `times`, the types of an exception in `error`, its `message`, and whether the file was `named` in it.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            found = notebook[READ](str(path) if as_text else path)
        except Exception as error:
            kinds = [kind.__name__ for kind in type(error).__mro__]
            return {"times": {}, "error": kinds, "named": path.name in str(error), "message": str(error)}
        return {"times": _times(found), "error": [], "named": False, "message": ""}


def _times(found: Any) -> Profile:
    """Return a dictionary of times; a value that is no number becomes its type's name."""
    if not isinstance(found, dict):
        raise TypeError(f"a dictionary was expected, {type(found).__name__} was returned")
    return {str(name): float(ms) if isinstance(ms, _NUMBERS) else type(ms).__name__ for name, ms in found.items()}


def _number_or_text(value: Any) -> float | str:
    return float(value) if isinstance(value, _NUMBERS) else str(value)[:80]


def _layer(data: dict[str, Any]) -> FusedLayer:
    nodes = [
        Node(
            node["op"],
            tuple(map(tuple, node["inputs"])),
            tuple(node["output"]),
            tuple(node.get("kernel", ())),
            node.get("transposed", False),
        )
        for node in data["nodes"]
    ]
    return FusedLayer(tuple(nodes), *(tuple(map(tuple, data[part])) for part in ("read", "weights", "written")))
