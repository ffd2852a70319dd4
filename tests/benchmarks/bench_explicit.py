"""Explicit against implicit INT8: accuracy and speed, and what the placement of Q/DQ is worth: `make explicit`.

ResNet-50 with the lab's weights and images, calibrated on the same images both ways. Of each precision three engines:
implicit (flags and a calibrator), explicit (Q/DQ where the implicit way computes in INT8) and naive (Q/DQ at the inputs
and weights of weighted layers only). Accuracy: paired, on the validation images, with the 95 % interval of the
difference. Speed: in turns of random order in one process; the figure is the median of the paired ratios, with its 95 %
bootstrap interval.
"""

import argparse
import contextlib
import datetime
import os
import re
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from helpers.data.datasets import load_dataset
from helpers.data.models import load_model
from helpers.engine.backend import API, describe
from helpers.tools.files import atomic_path, atomic_write, read_json, write_json
from tests.benchmarks.bench_offline import RESULTS, place
from tests.benchmarks.bench_streams import interval
from trtcpu.calibration_cache import parse_cache
from trtcpu.errors import InputError, LabError
from trtlab.building.build import BuildOptions, BuildRecord, build_engine
from trtlab.building.calibration_data import write_calibration_tensor
from trtlab.building.typed import explicit_int8, float_model
from trtlab.doctor import cpu_name
from trtlab.models.export import export_onnx
from trtlab.quality.classification import Accuracy, accuracy_loss, evaluate_engines
from trtlab.timing.runners import Runner, RunnerSpec, load_runner

PAGE = RESULTS.parent / "explicit-quantisation.md"
WAYS = ("implicit", "explicit", "naive")
LIMIT_POINTS = 0.5
"""Inside of this the interval of the difference in top-1 must be."""

_BETWEEN = re.compile(r"(<!-- made by make explicit -->\n).*?(<!-- end -->\n)", re.S)
_TURN_SECONDS = 0.2
_WARM_UP = 3  # turns


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the record: by precision, what was built, how accurate it is and how fast."""
    if API >= 11:
        raise InputError("TensorRT 11 builds nothing implicitly, so there is nothing to compare with; use TensorRT 10")
    record: dict[str, Any] = {"engine": describe(), "measured": datetime.date.today().isoformat()}
    record["machine"] = {
        "name": cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 1),
    }
    record["settings"] = {key: getattr(arguments, key) for key in ("images", "calibration", "turns", "batches")}
    arguments.work.mkdir(parents=True, exist_ok=True)
    engines = {precision: _engines(precision, arguments) for precision in arguments.precisions}
    paths = [arguments.work / f"{precision}_{way}.engine" for precision in engines for way in WAYS]
    found, _, _ = evaluate_engines(paths, load_dataset("digits", progress=False), arguments.images, 8, _say)
    record["precisions"] = {
        precision: {
            "engines": {way: {"size_bytes": r.size_bytes, "layers": r.layer_precisions} for way, r in built.items()},
            "accuracy": _accuracy({way: found[arguments.work / f"{precision}_{way}.engine"] for way in WAYS}),
            "speed": {str(batch): _speed(precision, batch, arguments) for batch in arguments.batches},
        }
        for precision, built in engines.items()
    }
    return record


def _say(text: str) -> None:
    print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _engines(precision: str, arguments: argparse.Namespace) -> dict[str, BuildRecord]:
    work, largest = arguments.work, max(arguments.batches)
    model, images = _inputs(arguments)
    built = {}
    for way in WAYS:
        engine = work / f"{precision}_{way}.engine"
        options: dict[str, Any] = {"precision": precision, "opt_batch": largest, "max_batch": largest}
        if way == "naive":
            scales = parse_cache((work / f"{precision}_explicit.engine.cache").read_bytes()).scales
            graph = explicit_int8(float_model(model.read_bytes(), str(model)), scales, naive=True)
            source = work / "naive.onnx"
            onnx.save(graph, str(source))
        else:
            source = model
            options |= {"calib_npy": images}
        options |= {"explicit": way != "implicit", "timing_cache": work / "timing.cache"}
        built[way] = build_engine(source, engine, BuildOptions(**options), lambda text: _say(f"{precision} {text}"))
    return built


def _inputs(arguments: argparse.Namespace) -> tuple[Path, Path]:
    """Return the model and the calibration tensor; an earlier run's are used again."""
    model, images = arguments.work / "resnet50.onnx", arguments.work / f"calibration_{arguments.calibration}.npy"
    if not model.exists():
        with atomic_path(model) as file:
            export_onnx(load_model("resnet50", progress=False), file, simplify=True)
    if not images.exists():
        paths = [
            path for path, _ in load_dataset("digits", progress=False).images("calibration", arguments.calibration)
        ]
        for done in write_calibration_tensor(paths, images):
            _say(f"calibration images: {done}")
    return model, images


def _accuracy(found: dict[str, Accuracy]) -> dict[str, Any]:
    implicit = found["implicit"]
    losses = {way: asdict(accuracy_loss(implicit, found[way])) for way in WAYS[1:]}
    changed = {way: int(np.sum(implicit.correct != found[way].correct)) for way in WAYS[1:]}
    top1 = {way: accuracy.top1 for way, accuracy in found.items()}
    return {"images": implicit.num_samples, "top1": top1, "loss_to_implicit": losses, "changed": changed}


def _speed(precision: str, batch: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return each way's median milliseconds at a batch, and the paired ratios of naive and implicit to explicit."""
    with contextlib.ExitStack() as stack:
        runners = {}
        for way in WAYS:
            path = arguments.work / f"{precision}_{way}.engine"
            runners[way] = load_runner(RunnerSpec("engine", str(path), way))
            stack.callback(runners[way].close)
            runners[way].bind(batch)
        times = _in_turns(runners, arguments.turns, lambda turn: _say(f"{precision}, batch {batch}: turn {turn}"))
    ratios = {way: times[way] / times["explicit"] for way in WAYS if way != "explicit"}
    return {
        "ms": {way: float(np.median(found)) for way, found in times.items()},
        "over_explicit": {
            way: {"ratio": float(np.median(ratio)), "interval": interval(ratio)} for way, ratio in ratios.items()
        },
    }


def _in_turns(runners: dict[str, Runner], turns: int, report: Any) -> dict[str, np.ndarray]:
    """Return milliseconds a batch [turns] of each runner; a turn runs each for a fifth of a second, in random order."""
    counts = {}
    for way, runner in runners.items():
        started = time.perf_counter()
        runner.run()
        counts[way] = max(1, round(_TURN_SECONDS / (time.perf_counter() - started)))
    chance, times = np.random.default_rng(0), {way: [] for way in runners}
    for turn in range(_WARM_UP + turns):
        report(turn)
        for way in chance.permutation(list(runners)):
            runners[way].run()  # the weights come into the cache
            started = time.perf_counter()
            for _ in range(counts[way]):
                runners[way].run()
            times[way].append(1e3 * (time.perf_counter() - started) / counts[way])
    return {way: np.array(found[_WARM_UP:]) for way, found in times.items()}


def section(record: dict[str, Any]) -> str:
    """Return the record as Markdown: where it was measured, a table of accuracy and speed, and naive over explicit."""
    machine, device, precisions = record["machine"], record["engine"]["device"], record["precisions"]
    batches = list(dict.fromkeys(batch for found in precisions.values() for batch in found["speed"]))
    heads = ["engine", "MB", "layers", "top-1", "points lost to implicit (95 %)", "changed"]
    heads += [f"ms, batch {batch}" for batch in batches]
    ratios = [
        f"{precision} at batch {batch} {_ratio(speed)}"
        for precision, found in precisions.items()
        for batch, speed in found["speed"].items()
    ]
    return "\n".join(
        [
            f"{device}, {machine['cores']} cores, {record['measured']}, `make explicit`; "
            f"{record['settings']['images']:,} validation images, {record['settings']['calibration']} for calibration:",
            "",
            f"| {' | '.join(heads)} |",
            "|---" * len(heads) + "|",
            *(_row(precision, way, found, batches) for precision, found in precisions.items() for way in WAYS),
            "",
            *textwrap.wrap(f"Time of naive over explicit (95 %): {'; '.join(ratios)}.", 130),
            "",
        ]
    )


def _row(precision: str, way: str, found: dict[str, Any], batches: Sequence[str]) -> str:
    built, accuracy = found["engines"][way], found["accuracy"]
    layers = ", ".join(f"{number} {kind}" for kind, number in built["layers"].items())
    lost, changed = "–", "–"
    if way != "implicit":
        loss = accuracy["loss_to_implicit"][way]
        lost = f"{loss['points']:.2f} ({loss['low']:.2f} to {loss['high']:.2f})"
        changed = str(accuracy["changed"][way])
    cells = [f"{precision}, {way}", f"{built['size_bytes'] / 1e6:.1f}", layers, f"{accuracy['top1'][way]:.2f} %"]
    times = [f"{found['speed'][batch]['ms'][way]:.2f}" if batch in found["speed"] else "–" for batch in batches]
    return f"| {' | '.join([*cells, lost, changed, *times])} |"


def _ratio(speed: dict[str, Any]) -> str:
    ratio = speed["over_explicit"]["naive"]
    low, high = ratio["interval"]
    return f"{ratio['ratio']:.2f}× ({low:.2f} to {high:.2f})"


def in_page(page: str) -> str:
    """Return the page with the sections of all records that are in docs/results."""
    records = [read_json(path) for path in sorted(RESULTS.glob("*/explicit.json"))]
    made = "\n".join(map(section, records))
    return _BETWEEN.sub(lambda found: f"{found[1]}{made}{found[2]}", page)


def main(given: Sequence[str] | None = None) -> None:
    """Measure, print, write the record; exit 1 where the interval of the difference leaves half a point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--precisions", nargs="+", default=["int8", "int8+fp16"], choices=["int8", "int8+fp16"])
    parser.add_argument("--images", type=int, default=2000, help="validation images")
    parser.add_argument("--calibration", type=int, default=256, help="calibration images")
    parser.add_argument("--turns", type=int, default=60, help="turns of the timing")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--out", type=Path, default=place("explicit.json"))
    parser.add_argument("--work", type=Path, default=Path("results/explicit"), help="folder that keeps the engines")
    arguments = parser.parse_args(given)
    try:
        record = measure(arguments)
    except LabError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
    write_json(arguments.out, record)
    print(f"\n{section(record)}\nwritten to {arguments.out}")
    if arguments.out.resolve().parent.parent == RESULTS:
        atomic_write(PAGE, in_page(PAGE.read_text()))
    losses = {p: found["accuracy"]["loss_to_implicit"]["explicit"] for p, found in record["precisions"].items()}
    outside = [p for p, loss in losses.items() if max(-loss["low"], loss["high"]) > LIMIT_POINTS]
    if outside:
        sys.exit(f"error: explicit {', '.join(outside)} may differ from implicit by more than {LIMIT_POINTS} points")


if __name__ == "__main__":
    main()
