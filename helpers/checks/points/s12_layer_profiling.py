"""Step 12: profile_layers and slowest; layer_flops, moved_bytes and bound; read_trtexec_profile."""

import json
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree, compare, plain
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.student import one_each
from helpers.engine.backend import cuda, trt
from helpers.engine.fused_layers import FusedLayer, Node
from helpers.toys.networks import EDGE

PROFILE, SLOWEST, FLOPS, BYTES, BOUND = "profile_layers", "slowest", "layer_flops", "moved_bytes", "bound"
READ = "read_trtexec_profile"
TIMES = Task("layer_times", check="check_layer_times", takes=(PROFILE, SLOWEST))
BOUNDS = Task("layer_bounds", check="check_layer_bounds", takes=(FLOPS, BYTES, BOUND))
FILES = Task("trtexec_profile", check="check_trtexec_profile", takes=(READ,))
TASKS = (TIMES, BOUNDS, FILES)

_RUNS, _WARM_UP = 50, 5
PROMISES = (f"profile_layers(context, run, runs={_RUNS}, warmup={_WARM_UP})",)
"""What the notebook's text says in figures."""

Times = list[list[Any]]  # what one run reports: [layer, ms] in order
Profile = list[tuple[str, float]]
Profiled = tuple[Profile, int]  # and the number of runs


def _rows(times: Any) -> Profile:
    return [(str(name), float(ms)) for name, ms in times.items()]


class _Context:
    """A context whose runs report what is given; `profiler` is what real ones have."""

    def __init__(self, reported: list[Times]) -> None:
        self.profiler: Any = None
        self.runs, self._reported = 0, reported

    def run(self) -> None:
        times = self._reported[min(self.runs, len(self._reported) - 1)]
        self.runs += 1
        for name, ms in times if self.profiler is not None else ():
            self.profiler.report_layer_time(name, ms)


@probe
def profile_known(notebook: Notebook, *, reported: list[Times], options: dict[str, int]) -> Profiled:
    """Profile a context whose runs report `reported` in order; return [layer, ms] in order, and the number of runs."""
    context = _Context(reported)
    found = notebook[PROFILE](context, context.run, **options)
    return _rows(found), context.runs


@probe
def profile_engine(notebook: Notebook, *, plan: bytes, runs: int, warmup: int) -> Profiled:
    """Profile a real engine of one input; return [layer, ms] in order, and the number of runs."""
    engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)
    context, stream, calls = engine.create_execution_context(), cuda.Stream(), []
    context.set_input_shape("input", (1, 3, EDGE, EDGE))
    buffers = {name: cuda.mem_alloc(4 * trt.volume(context.get_tensor_shape(name))) for name in ("input", "output")}
    for name, buffer in buffers.items():
        context.set_tensor_address(name, int(buffer))

    def run() -> None:
        calls.append(context.execute_async_v3(stream.handle))
        stream.synchronize()

    return _rows(notebook[PROFILE](context, run, runs=runs, warmup=warmup)), len(calls)


@probe
def count_layers(notebook: Notebook, *, function: str, layers: list[Any], more: list[int]) -> list[Any]:
    """Return what a function says of layers, each given as [nodes, read, weights, written]."""
    return [plain(notebook[function](_layer(*layer), *more)) for layer in layers]


def _layer(nodes: list[list[Any]], *shapes: list[list[int]]) -> FusedLayer:
    made = [Node(op, _shapes(read), tuple(out), tuple(kernel), bool(turned)) for op, read, out, kernel, turned in nodes]
    return FusedLayer(tuple(made), *map(_shapes, shapes))


def _shapes(found: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, found))


@probe
def read_file(notebook: Notebook, *, content: bytes, name: str) -> tuple[Profile, list[str], str]:
    """Read a file of these bytes and this name; return [layer, ms] in order, or types and message of an exception."""
    function = notebook[READ]
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / name).write_bytes(content)
        try:
            return _rows(function(path)), [], ""
        except Exception as error:
            return [], [kind.__name__ for kind in type(error).__mro__], str(error)


def _runs(case: Case, purpose: str, number: int) -> list[Times]:
    """Return what `number` runs report; each layer's times are skewed, so that its mean is not its median."""
    random = case.random(purpose)
    layers = {f"/block{index}/conv/Conv + /block{index}/relu/Relu": random.uniform(0.02, 0.5) for index in (3, 0, 2, 1)}
    return [[[name, ms * float(1 + random.exponential(0.5))] for name, ms in layers.items()] for _ in range(number)]


def _same(found: Times, right: Times, what: str, advice: str) -> str:
    """Return evidence that two profiles have the same layers in the same order, and the same times."""
    layers, expected = ([name for name, _ in times] for times in (found, right))
    agree(layers, expected, f"the layers of {what}, in this order", advice)
    agree(dict(found), dict(right), what, advice, rtol=1e-9)
    return f"{len(right)} layers of {what}"


def _profile(case: Case, reported: list[Times], advice: str, **options: int) -> str:
    """Return evidence that a profile of these runs, of which the first ones warm up, has the medians that it should."""
    warmup = options.get("warmup", _WARM_UP)
    found, runs = case.call(profile_known, reported=reported, options=options).require(PROFILE)
    if runs != len(reported):
        expected = f"{warmup} + {len(reported) - warmup} calls of run()"
        raise Missed(expected, f"{runs} calls", "call run() `warmup` times, then `runs` times")
    counted = reported[warmup:]
    names = dict.fromkeys(name for run in counted for name, _ in run)
    right = [[name, median(sum(ms for other, ms in run if other == name) for run in counted)] for name in names]
    return _same(found, right, f"{PROFILE} over {warmup} + {len(counted)} runs", advice)


@TIMES.point("layers.medians", 0.4, "Each layer has the median of its times")
def medians(case: Case) -> str:
    advice = "collect each layer's time run by run, and take the median of them, in milliseconds as reported"
    odd, even = (_runs(case, f"profile.{number}", number) for number in (9, 10))
    return f"{_profile(case, odd, advice, runs=9, warmup=0)}; {_profile(case, even, advice, runs=10, warmup=0)}"


@TIMES.point("layers.counted", 0.4, "The warm-up does not count", "how often run is called: counted in its process")
def counted(case: Case) -> str:
    advice, said = "what the warm-up reports must not be among the times", ""
    for runs, warmup, options in ((3, 4, {"runs": 3, "warmup": 4}), (_RUNS, _WARM_UP, {})):
        cold = [[[name, 50 * ms] for name, ms in run] for run in _runs(case, "profile.cold", warmup)]
        said = _profile(case, cold + _runs(case, "profile.warm", runs), advice, **options)
    return said


@TIMES.point("layers.names", 0.2, "A name that comes twice is added up; no report at all is an error")
def names(case: Case) -> str:
    reported, random = _runs(case, "profile.names", 5), case.random("profile.copies")
    for number, run in enumerate(reported):
        copies = [["Reformatting CopyNode for Input Tensor 0", float(ms)] for ms in random.uniform(0.01, 0.1, 2)]
        run[2:2] = copies[:1]
        run += [copies[1], *([["in some runs only", 0.3]] if number in (0, 1, 3) else [])]
    reported[1].append(["in one run only", 0.1])
    advice = "add up what a name reports within a run; a run without it has 0 for it"
    said = _profile(case, reported, advice, runs=5, warmup=0)
    silent = case.call(profile_known, reported=[[]], options={"runs": 2, "warmup": 1}).error or {}
    if silent.get("type") != "ValueError":
        found = silent.get("type", "no exception")
        raise Missed("ValueError where no layer reports a time", found, "an empty profile would pass for a fast engine")
    return said


@TIMES.point("layers.slowest", 0.25, "The slowest layers come first, with their share of the whole")
def ranked(case: Case) -> str:
    random = case.random("profile.ranked")
    times = {f"layer {index}": float(ms) for index, ms in enumerate(random.permutation(np.linspace(0.1, 3.0, 9)))}
    rows = [[name, ms, 100 * ms / sum(times.values())] for name, ms in sorted(times.items(), key=lambda row: -row[1])]
    advice = "sort by the time, largest first; the share is that of the sum of all layers, in percent"
    return compare(case, SLOWEST, [((times, 3), rows[:3]), ((times, 50), rows)], advice)


Layer = list[Any]  # nodes as [operator, inputs, output, kernel, transposed], then shapes: read, weights, written


def _node(op: str, inputs: list[Any], output: Any, kernel: tuple[int, ...] = (), turned: bool = False) -> Layer:
    return [op, [[*shape] for shape in inputs], [*output], [*kernel], turned]


def _convolution(case: Case, groups: int) -> tuple[Layer, float]:
    """Return a convolution with a ReLU as one layer, and its operations: a layer of ones counts its own."""
    random = case.random(f"flops.conv.{groups}")
    batch, channels, outputs, kernel, stride, wider = (int(number) for number in random.integers(2, 6, 6))
    filters = torch.ones(outputs * groups, channels, kernel, kernel + 1)
    images = torch.ones(batch, channels * groups, kernel + 6, kernel + 6 + wider)
    made = functional.conv2d(images, filters, stride=stride, groups=groups)
    nodes = [
        _node("Conv", [images.shape, filters.shape, [len(filters)]], made.shape),
        _node("Relu", [made.shape], made.shape),
    ]
    layer = [nodes, [[*images.shape]], [[*filters.shape], [len(filters)]], [[*made.shape]]]
    return layer, 2 * float(made.double().sum()) + made.numel()


def _counted(case: Case, function: str, layers: list[tuple[Layer, float]], advice: str, *more: int) -> str:
    asked = [layer for layer, _ in layers]
    found = one_each(case.call(count_layers, function=function, layers=asked, more=[*more]).require(function), asked)
    for (layer, right), number in zip(layers, found, strict=True):
        nodes = " + ".join(f"{op} of inputs {inputs} and output {output}" for op, inputs, output, *_ in layer[0])
        agree(number, right, f"{function} of {nodes}", advice)
    return f"{len(layers)} layers, {layers[0][1]:,.0f} in the first"


@BOUNDS.point("layers.convolutions", 0.4, "A convolution's operations, also of a grouped one, and what is fused to it")
def convolutions(case: Case) -> str:
    advice = "two for each weight of a filter and each output, and one for each output of the ReLU"
    return _counted(case, FLOPS, [_convolution(case, groups) for groups in (1, 3)], advice)


@BOUNDS.point(
    "layers.others", 0.3, "Operations of products, poolings and additions, and none where nothing is computed"
)
def others(case: Case) -> str:
    random = case.random("flops.others")
    rows, inner, columns, channels, edge = map(int, random.permutation(np.arange(3, 9))[:5])  # no two alike
    product = 2.0 * rows * inner * columns
    maps, small, result = [rows, channels, 2 * edge, 3 * edge], [rows, channels, edge, edge], [rows, columns]
    size, window = float(np.ones(maps).sum()), 6.0 * np.ones(small).sum()
    gemm = _node("Gemm", [[rows, inner], [inner, columns], [columns]], result)
    turned = _node("Gemm", [[inner, rows], [inner, columns], [columns]], result, turned=True)
    by_rows = _node("Gemm", [[rows, inner], [columns, inner], [columns]], result)  # transB
    both = _node("Gemm", [[inner, rows], [columns, inner], [columns]], result, turned=True)
    heads = [[2, channels, rows, inner], [2, channels, inner, columns]]
    relu, flat = _node("Relu", [maps], maps), _node("Flatten", [maps], [rows, channels * 6 * edge * edge])
    pool, average = _node("MaxPool", [maps], small, (2, 3)), _node("AveragePool", [maps], small, (2, 3))
    counts = [
        *(([node], product) for node in (gemm, turned, by_rows, both)),
        ([_node("MatMul", heads, [2, channels, rows, columns])], 2 * channels * product),
        *([[node], window] for node in (pool, average)),
        ([_node("GlobalAveragePool", [maps], [rows, channels, 1, 1])], size),
        ([_node("Add", [maps, maps], maps), relu], 2 * size),
        ([relu, gemm], size + product),
        ([flat, gemm], product),
        ([_node("Transpose", [maps], maps[::-1])], 0.0),
    ]
    advice = "look at the task's list of operators; node.output has the shape of the result"
    return _counted(case, FLOPS, [([nodes, [], [], []], right) for nodes, right in counts], advice)


@BOUNDS.point("layers.moved", 0.4, "Everything that is read and written is moved once, weights too")
def moved(case: Case) -> str:
    (nodes, read, weights, written), _ = _convolution(case, 1)
    layers, advice = [[nodes, read, weights, written], [nodes, read + written, weights, written]], "all three parts"
    said = ""
    for kind in (np.float16, np.int8):
        sizes = [sum(np.empty(shape, kind).nbytes for part in layer[1:] for shape in part) for layer in layers]
        said = _counted(case, BYTES, [*zip(layers, sizes, strict=True)], advice, np.dtype(kind).itemsize)
    return said


@BOUNDS.point("layers.bound", 0.4, "The longer of the two times bounds the layer")
def bounds(case: Case) -> str:
    random, pairs = case.random("bounds"), []
    for bounded_by in random.permutation(["compute", "memory"] * 3):
        short = float(random.uniform(1, 3))
        long = short * float(random.uniform(3, 20))  # so that rounding decides nothing
        compute_ms, memory_ms = (long, short) if bounded_by == "compute" else (short, long)
        gflops, gb_s = float(random.uniform(100, 9e5)), float(random.uniform(20, 4000))
        pairs.append(((compute_ms * gflops * 1e6, memory_ms * gb_s * 1e6, gflops, gb_s), [str(bounded_by), long]))
    return compare(case, BOUND, pairs, "both times in milliseconds; the longer one decides")


def _exported(case: Case, number: int = 6) -> list[dict[str, Any]]:
    """Return entries as trtexec writes them; average, median and sum of a layer are three different numbers."""
    random, entries = case.random("trtexec"), []
    for index in random.permutation(number):
        middle, mean = (float(ms) for ms in random.uniform(0.01, 0.5) * random.uniform(1, 1.2, 2))
        times = {"timeMs": 40 * mean, "averageMs": mean, "medianMs": middle, "percentage": float(random.uniform(1, 20))}
        entries.append({"name": f"/layer{index}/Conv", **times})
    return [{"count": 40}, *entries]


def _read(case: Case, content: Any) -> list[Any]:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return case.call(read_file, content=data, name=f"profile {case.number('trtexec.name')}.json").require(READ)


def _reads(case: Case, content: list[dict[str, Any]], right: list[float], advice: str) -> str:
    """Return evidence that the times of a file are `right`, layer by layer in its order."""
    found, error, message = _read(case, content)
    if error:
        raise Missed("the times of a right file", f"{error[0]}: {message}"[:160], "run it on a file of this form")
    names = dict.fromkeys(entry["name"] for entry in content[1:])
    return _same(found, [[name, ms] for name, ms in zip(names, right, strict=True)], READ, advice)


@FILES.point("trtexec.medians", 0.3, "Medians by layer, in the file's order")
def with_medians(case: Case) -> str:
    content = _exported(case)
    return _reads(case, content, [entry["medianMs"] for entry in content[1:]], "take medianMs of each entry")


@FILES.point("trtexec.averages", 0.3, "Averages where a layer has no median")
def averages(case: Case) -> str:
    content, mixed = _exported(case), _exported(case)
    for entry in content[1:]:
        del entry["medianMs"]
    del mixed[2]["averageMs"], mixed[3]["medianMs"]
    _reads(case, content, [entry["averageMs"] for entry in content[1:]], "without medianMs, averageMs is there")
    right = [entry.get("medianMs", entry.get("averageMs")) for entry in mixed[1:]]
    return _reads(case, mixed, right, "decide for each layer: one has a median only, one an average only")


@FILES.point("trtexec.repeated", 0.1, "Names that come more than once are added up")
def repeated(case: Case) -> str:
    content = _exported(case)
    twice = {**content[2], "medianMs": 0.125, "averageMs": 0.25}
    right = [entry["medianMs"] + 0.125 * (entry is content[2]) for entry in content[1:]]
    return _reads(case, [*content, twice], right, "a second entry must not replace the first")


@FILES.point("trtexec.wrong_files", 0.3, "Another file is a ValueError that names the path")
def wrong_files(case: Case) -> str:
    good = _exported(case, 3)
    wrong: dict[str, Any] = {
        "half a file": json.dumps(good).encode()[:-30],
        "an object, not a list": {"count": 3},
        "a list that begins with a layer": good[1:],
        "no layers": good[:1],
        "a layer without a name": [*good, {"timeMs": 1.0, "averageMs": 0.1, "medianMs": 0.1}],
        "a layer without a time": [*good, {"name": "/late/Conv", "timeMs": 1.0}],
        "a time in words": [*good, {"name": "/late/Conv", "averageMs": "fast", "medianMs": "fast"}],
    }
    for what, content in wrong.items():
        _, error, message = _read(case, content)
        if "ValueError" not in error:
            found = error[0] if error else "no exception"
            raise Missed(f"ValueError for {what}", found, "catch what the file can cause, raise ValueError")
        if f"profile {case.number('trtexec.name')}.json" not in message:
            raise Missed(f"the path in the message for {what}", message[:120], "say which file it is")
    return f"{len(wrong)} files that are none"
