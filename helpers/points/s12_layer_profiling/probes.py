"""The student's side of step 12: its functions on a context that reports known times, on known layers, on files."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from helpers.backend import cuda, trt
from helpers.fused_layers import FusedLayer, Node
from helpers.probes.answer import Notebook, probe
from helpers.probes.networks import EDGE

__all__ = ["BOUND", "BYTES", "FLOPS", "PROFILE", "READ", "SLOWEST"]

PROFILE, SLOWEST = "profile_layers", "slowest"
FLOPS, BYTES, BOUND = "layer_flops", "moved_bytes", "bound"
READ = "read_trtexec_profile"

Times = list[list[Any]]
"""What one run reports: [layer, ms] in order."""


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
def profile_known(notebook: Notebook, *, reported: list[Times], options: dict[str, int]) -> dict[str, Any]:
    """Profile a context whose runs report `reported`, one after the other; a run too many reports the last again."""
    context = _Context(reported)
    found = notebook[PROFILE](context, context.run, **options)
    profiler = isinstance(context.profiler, trt.IProfiler) or context.profiler is None
    return {"times": _pairs(found), "runs": context.runs, "profiler": profiler}


@probe
def profile_engine(notebook: Notebook, *, plan: bytes, runs: int, warmup: int) -> dict[str, Any]:
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

    times = _pairs(notebook[PROFILE](context, run, runs=runs, warmup=warmup))
    return {"times": times, "runs": len(calls)}


@probe
def rank_layers(notebook: Notebook, *, times: Times, number: int) -> list[list[Any]]:
    """Return the rows of `slowest`, as lists."""
    return [list(row) for row in notebook[SLOWEST](dict(map(tuple, times)), number)]


@probe
def count_layers(notebook: Notebook, *, layers: list[dict[str, Any]], item_bytes: int = 1) -> dict[str, list[float]]:
    """Return FLOPs and bytes of layers given as data."""
    made = [_layer(layer) for layer in layers]
    return {
        "flops": [float(notebook[FLOPS](layer)) for layer in made],
        "bytes": [float(notebook[BYTES](layer, item_bytes)) for layer in made],
    }


@probe
def bound_layers(notebook: Notebook, *, cases: list[dict[str, float]]) -> list[list[Any]]:
    """Return what `bound` says of each case, as lists."""
    return [list(notebook[BOUND](case["flops"], case["moved"], case["gflops"], case["gb_s"])) for case in cases]


@probe
def read_file(notebook: Notebook, *, content: bytes, as_text: bool = False) -> dict[str, Any]:
    """Read a file of these bytes; `as_text` gives the path as a string. An exception is told with its type."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "exported profile.json"
        path.write_bytes(content)
        try:
            found = notebook[READ](str(path) if as_text else path)
        except Exception as error:
            kinds = [kind.__name__ for kind in type(error).__mro__]
            return {"error": kinds, "named": path.name in str(error), "message": str(error)}
        return {"times": _pairs(found), "error": None}


def _pairs(found: Any) -> Times:
    """Return a dictionary as [name, milliseconds] in its order; a value that is no number becomes its type's name."""
    if not isinstance(found, dict):
        raise TypeError(f"a dictionary was expected, {type(found).__name__} was returned")
    numbers = (int, float, np.number)
    return [[str(name), float(ms) if isinstance(ms, numbers) else type(ms).__name__] for name, ms in found.items()]


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
