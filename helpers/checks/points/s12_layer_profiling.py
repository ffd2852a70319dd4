"""Step 12: profile_layers and slowest; layer_flops, moved_bytes and bound; read_trtexec_profile."""

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from helpers.checks.points.case import Case
from helpers.checks.points.pure import Answered, Raises, compare, results_of
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.engine.fused_layers import FusedLayer, Node

PROFILE, SLOWEST, FLOPS, BYTES, BOUND = "profile_layers", "slowest", "layer_flops", "moved_bytes", "bound"
READ = "read_trtexec_profile"
TIMES = Task("layer_times", check="check_layer_times", takes=(PROFILE, SLOWEST))
BOUNDS = Task("layer_bounds", check="check_layer_bounds", takes=(FLOPS, BYTES, BOUND))
FILES = Task("trtexec_profile", check="check_trtexec_profile", takes=(READ,))
TASKS = (TIMES, BOUNDS, FILES)

_RUNS, _WARM_UP = 50, 5
PROMISES = (f"profile_layers(context, run, runs={_RUNS}, warmup={_WARM_UP})",)
"""Figures in the notebook's text."""

Times = list[list[Any]]  # one run's reports: [layer, ms] in order


class _Context:
    """A context whose runs report the given times to its `profiler`, like a real one."""

    def __init__(self, reported: list[Times]) -> None:
        self.profiler: Any = None
        self.runs, self._reported = 0, reported

    def run(self) -> None:
        times = self._reported[min(self.runs, len(self._reported) - 1)]
        self.runs += 1
        for name, ms in times if self.profiler is not None else ():
            self.profiler.report_layer_time(name, ms)


@probe
def profiles_of(notebook: Notebook, *, name: str, calls: list[list[Any]], raising: bool) -> list[Answered]:
    """Answer like `results_of`; a call has options, and the reports of each run of a context."""
    return results_of({name: partial(_profiled, notebook[name])}, name=name, calls=calls, raising=raising)


def _profiled(profile: Callable[..., Any], options: dict[str, int], reported: list[Times]) -> dict[str, Any]:
    context = _Context(reported)
    times = profile(context, context.run, **options)
    return {"calls of run()": context.runs, "times": [*times.items()]}


@probe
def counts_of(notebook: Notebook, *, name: str, calls: list[list[Any]], raising: bool) -> list[Answered]:
    """Answer like `results_of`; a call's first argument is a layer: nodes, and shapes read, of weights, written."""
    count = notebook[name]
    counted = {name: lambda layer, *more: count(_layer(*layer), *more)}
    return results_of(counted, name=name, calls=calls, raising=raising)


def _layer(nodes: list[list[Any]], *shapes: Any) -> FusedLayer:
    return FusedLayer(tuple(Node(*_tuples(node)) for node in nodes), *_tuples([*shapes]))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


@probe
def files_read(notebook: Notebook, *, name: str, calls: list[list[Any]], raising: bool) -> list[Answered]:
    """Answer like `results_of`; a call has a file's name and text."""
    return results_of({name: partial(_read, notebook[name])}, name=name, calls=calls, raising=raising)


_REFUSED = "a ValueError that names the path"


def _read(read: Callable[[Path], Any], file: str, text: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / file).write_text(text)
        try:
            return [*read(path).items()]
        except ValueError as error:
            return _REFUSED if file in str(error) else f"ValueError: {error}"


def _runs(case: Case, purpose: str, number: int) -> list[Times]:
    """Return the reports of `number` runs; each layer's times are skewed, so mean and median differ."""
    random = case.random(purpose)
    layers = {f"/block{index}/conv/Conv + /block{index}/relu/Relu": random.uniform(0.02, 0.5) for index in (3, 0, 2, 1)}
    return [[[name, ms * float(1 + random.exponential(0.5))] for name, ms in layers.items()] for _ in range(number)]


def _medians(options: dict[str, int], reported: list[Times]) -> tuple[tuple[Any, list[Times]], dict[str, Any]]:
    """Return the arguments of a call, and its right profile."""
    counted = reported[options.get("warmup", _WARM_UP) :]
    names = dict.fromkeys(name for run in counted for name, _ in run)
    right = [[name, median(sum(ms for other, ms in run if other == name) for run in counted)] for name in names]
    return (options, reported), {"calls of run()": len(reported), "times": right}


@TIMES.point("layers.medians", 0.65, "Each layer has the median of its times")
def medians(case: Case) -> str:
    advice = "collect each layer's times run by run, and take their median, in milliseconds as reported"
    pairs = [_medians({"runs": runs, "warmup": 0}, _runs(case, f"profile.{runs}", runs)) for runs in (9, 10)]
    return compare(case, PROFILE, pairs, advice, through=profiles_of)


@TIMES.point("layers.counted", 0.4, "The warm-up does not count", "the number of calls of run: counted in its process")
def counted(case: Case) -> str:
    advice, pairs = "call run() `warmup` times first, and leave out what it reports then", []
    for runs, warmup, options in ((3, 4, {"runs": 3, "warmup": 4}), (_RUNS, _WARM_UP, {})):
        cold = [[[name, 50 * ms] for name, ms in run] for run in _runs(case, "profile.cold", warmup)]
        pairs.append(_medians(options, cold + _runs(case, "profile.warm", runs)))
    return compare(case, PROFILE, pairs, advice, through=profiles_of)


@TIMES.point("layers.names", 0.2, "A repeated name is summed, and a run without any report raises")
def names(case: Case) -> str:
    reported, random = _runs(case, "profile.names", 5), case.random("profile.copies")
    for number, run in enumerate(reported):
        first, second = (["Reformatting CopyNode", float(ms)] for ms in random.uniform(0.01, 0.1, 2))
        run[:] = [*run[:2], first, *run[2:], second, *[["in some runs only", 0.3]] * (number in (0, 3))]
    silent = ({"runs": 2, "warmup": 1}, [[]]), Raises("ValueError")
    advice = "sum a name's reports within a run, 0 without any, and raise if nothing is reported"
    return compare(case, PROFILE, [_medians({"runs": 5, "warmup": 0}, reported), silent], advice, through=profiles_of)


@TIMES.point("layers.slowest", 0.25, "The slowest layers come first, with their share of the total")
def ranked(case: Case) -> str:
    random = case.random("profile.ranked")
    times = {f"layer {index}": float(ms) for index, ms in enumerate(random.permutation(np.linspace(0.1, 3.0, 9)))}
    rows = [[name, ms, 100 * ms / sum(times.values())] for name, ms in sorted(times.items(), key=lambda row: -row[1])]
    advice = "sort by time, largest first; give the share of all layers' sum in percent"
    return compare(case, SLOWEST, [((times, 3), rows[:3]), ((times, 50), rows)], advice)


def _convolution(case: Case, groups: int) -> tuple[list[Any], float]:
    """Return a convolution with a ReLU as one layer, and its operations, counted by convolving ones.

    A layer is a list of nodes, each as the fields of Node, and lists of shapes: read, of weights, written.
    """
    random = case.random(f"flops.conv.{groups}")
    batch, channels, outputs, kernel, stride, wider = (int(number) for number in random.integers(2, 6, 6))
    filters = torch.ones(outputs * groups, channels, kernel, kernel + 1)
    images = torch.ones(batch, channels * groups, kernel + 6, kernel + 6 + wider)
    made = functional.conv2d(images, filters, stride=stride, groups=groups)
    given, weights, result = [*images.shape], [[*filters.shape], [len(filters)]], [*made.shape]
    nodes = [["Conv", [given, *weights], result], ["Relu", [result], result]]
    return [nodes, [given], weights, [result]], 2 * float(made.double().sum()) + made.numel()


@BOUNDS.point("layers.convolutions", 0.4, "Operations of convolutions, also grouped ones, and of fused nodes")
def convolutions(case: Case) -> str:
    layers = [_convolution(case, groups) for groups in (1, 3)]
    advice = "count two per filter weight and output, and one per output of the ReLU"
    return compare(case, FLOPS, [((layer,), count) for layer, count in layers], advice, through=counts_of)


@BOUNDS.point("layers.others", 0.3, "Operations of products, poolings and additions, and 0 if nothing is computed")
def others(case: Case) -> str:
    rows, inner, columns, channels, edge = map(int, case.random("flops.others").permutation(np.arange(3, 9))[:5])
    product, result, bias = 2.0 * rows * inner * columns, [rows, columns], [columns]  # no two lengths are equal
    maps, small = [rows, channels, 2 * edge, 3 * edge], [rows, channels, edge, edge]
    size, window = float(np.ones(maps).sum()), 6.0 * np.ones(small).sum()
    gemm = ["Gemm", [[rows, inner], [inner, columns], bias], result]
    relu = ["Relu", [maps], maps]
    counts = [
        ([gemm], product),
        ([["Gemm", [[rows, inner], [columns, inner], bias], result]], product),
        ([["Gemm", [[inner, rows], [inner, columns], bias], result, [], True]], product),
        ([["Gemm", [[inner, rows], [columns, inner], bias], result, [], True]], product),
        ([["MatMul", [[2, 5, rows, inner], [2, 5, inner, columns]], [2, 5, *result]]], 10 * product),
        ([["MaxPool", [maps], small, [2, 3]]], window),
        ([["AveragePool", [maps], small, [2, 3]]], window),
        ([["GlobalAveragePool", [maps], [rows, channels, 1, 1]]], size),
        ([["Add", [maps, maps], maps], relu], 2 * size),
        ([relu, gemm], size + product),
        ([["Flatten", [maps], [rows, channels * 6 * edge * edge]], gemm], product),
        ([["Transpose", [maps], maps[::-1]]], 0.0),
    ]
    advice = "follow the task's list of operators; node.output has the shape of the result"
    pairs = [(([nodes, [], [], []],), count) for nodes, count in counts]
    return compare(case, FLOPS, pairs, advice, through=counts_of)


@BOUNDS.point("layers.moved", 0.4, "All that is read and written counts once, weights included")
def moved(case: Case) -> str:
    (nodes, read, weights, written), _ = _convolution(case, 1)
    layers = [nodes, read, weights, written], [nodes, read + written, weights, written]
    count = [sum(np.empty(shape, np.int8).nbytes for part in layer[1:] for shape in part) for layer in layers]
    pairs = [((layer, width), width * number) for layer, number in zip(layers, count, strict=True) for width in (2, 1)]
    return compare(case, BYTES, pairs, "add up all shapes of all three parts, equal ones too", through=counts_of)


@BOUNDS.point("layers.bound", 0.4, "The longer of the two times bounds the layer")
def bounds(case: Case) -> str:
    random, pairs = case.random("bounds"), []
    for bounded_by, order in (("compute", -1), ("memory", 1)) * 3:
        least, rates = float(random.uniform(10, 60)), random.uniform((100, 20), (9e5, 4000)).tolist()
        times = [least / random.uniform(3, 20), least][::order]  # far apart, so that rounding does not matter
        pairs.append(((*(1e6 * ms * rate for ms, rate in zip(times, rates, strict=True)), *rates), [bounded_by, least]))
    return compare(case, BOUND, pairs, "compute both times in milliseconds, and take the longer one")


def _exported(case: Case, number: int = 6) -> list[dict[str, Any]]:
    """Return entries as trtexec writes them; a layer's average, median and sum all differ."""
    random, entries = case.random("trtexec"), []
    for index in random.permutation(number):
        middle, mean = (float(ms) for ms in random.uniform(0.01, 0.5) * random.uniform(1, 1.2, 2))
        times = {"timeMs": 40 * mean, "averageMs": mean, "medianMs": middle, "percentage": float(random.uniform(1, 20))}
        entries.append({"name": f"/layer{index}/Conv", **times})
    return [{"count": 40}, *entries]


def _reads(case: Case, pairs: list[tuple[list[dict[str, Any]], list[float]]], advice: str) -> str:
    """Return evidence that the times of files are right, layer by layer in the file's order."""
    asked = []
    for content, times in pairs:
        names = dict.fromkeys(entry["name"] for entry in content[1:])
        right = [[name, ms] for name, ms in zip(names, times, strict=True)]
        asked.append((("profile.json", json.dumps(content)), right))
    return compare(case, READ, asked, advice, through=files_read)


@FILES.point("trtexec.medians", 0.3, "Medians by layer, in the file's order")
def with_medians(case: Case) -> str:
    content = _exported(case)
    return _reads(case, [(content, [entry["medianMs"] for entry in content[1:]])], "take medianMs of each entry")


@FILES.point("trtexec.averages", 0.3, "The average of a layer without a median")
def averages(case: Case) -> str:
    content, mixed = _exported(case), _exported(case)
    for entry in content[1:]:
        del entry["medianMs"]
    del mixed[2]["averageMs"], mixed[3]["medianMs"]
    right = [[entry.get("medianMs", entry.get("averageMs")) for entry in found[1:]] for found in (content, mixed)]
    advice = "decide for each layer: it may have only a median, or only an average"
    return _reads(case, [(content, right[0]), (mixed, right[1])], advice)


@FILES.point("trtexec.repeated", 0.1, "Repeated names are summed")
def repeated(case: Case) -> str:
    content = _exported(case)
    right = [entry["medianMs"] + 0.125 * (entry is content[2]) for entry in content[1:]]
    twice = {**content[2], "medianMs": 0.125, "averageMs": 0.25}
    return _reads(case, [([*content, twice], right)], "add a second entry to the first instead of replacing it")


@FILES.point("trtexec.wrong_files", 0.3, "Any other file raises ValueError with the path")
def wrong_files(case: Case) -> str:
    good, number = _exported(case, 3), case.number("trtexec.name")
    wrong: dict[str, Any] = {
        "no list": {"count": 3},
        "no count": good[1:],
        "no layers": good[:1],
        "a layer without a name": [*good, {"timeMs": 1.0, "averageMs": 0.1, "medianMs": 0.1}],
        "a layer without a time": [*good, {"name": "/late/Conv", "timeMs": 1.0}],
        "a word as a time": [*good, {"name": "/late/Conv", "averageMs": "fast", "medianMs": "fast"}],
    }
    texts = {"no JSON": json.dumps(good)[:-30], **{what: json.dumps(content) for what, content in wrong.items()}}
    pairs = [((f"{what} {number}.json", text), _REFUSED) for what, text in texts.items()]
    advice = "catch every error that a wrong file can cause, and raise ValueError with the path"
    return compare(case, READ, pairs, advice, through=files_read)
