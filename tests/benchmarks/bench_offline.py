"""`make offline`: images per second of ResNet-50 at every batch, number of streams, with and without CUDA graphs.

Writes a record after each batch, so that a run that was stopped goes on where it was, with the engines that it built; a
whole record is measured again. At the best point of each engine it measures once more with copies in and out, and
profiles the layers. The tables of docs/throughput.md are made of the records.
"""

import argparse
import datetime
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from helpers.engine.backend import ENGINE, describe, trt
from helpers.tools.files import atomic_path, atomic_write, read_json, write_json
from tests.benchmarks import fidelity
from tests.benchmarks.offline_page import PAGE, RESULTS, in_page
from trtcpu.errors import InputError, LabError
from trtlab.building.build import BuildOptions, build_engine
from trtlab.doctor import cpu_name
from trtlab.profiling.profile import profile_engine
from trtlab.timing.options import StreamOptions
from trtlab.timing.runners import Runner, RunnerSpec, load_runner
from trtlab.timing.streams import measure_streams
from trtlab.versions import versions

Say = Callable[[str], None]
SHOWN_LAYERS = 5
PROFILED = 30
WORKSPACE_MB = 4096  # at batch 256 some kernels need more than the usual 2 GB


@dataclass(frozen=True)
class Settings:
    """What to measure; `onnx` in place of the lab's ResNet-50, `level` is TensorRT's builder optimization level.

    An engine is a precision, tuned for the largest batch, or for the one behind an @: "int8@64".
    """

    engines: tuple[str, ...] = ("fp16", "int8")
    batches: tuple[int, ...] = (1, 8, 32, 64, 128, 256)
    streams: tuple[int, ...] = (1, 2, 4)
    seconds: float = 0.6
    level: int | None = None
    onnx: Path | None = None

    def described(self) -> dict[str, Any]:
        """Return what two records must share for one to go on from the other."""
        return {
            "streams": list(self.streams),
            "seconds": self.seconds,
            "level": self.level,
            "largest_batch": max(self.batches),
            "model": "resnet50" if self.onnx is None else self.onnx.stem,
        }


def run(settings: Settings, out: Path, work: Path, say: Say = lambda text: None) -> dict[str, Any]:
    """Measure what the record `out` does not have yet, write it, and return it."""
    record = _begun(settings, out)
    engines = {name: _engine(name, settings, work, say) for name in settings.engines}
    for batch in settings.batches:
        there = {row["name"] for row in record["rows"] if row["batch"] == batch}
        missing = {name: path for name, path in engines.items() if name not in there}
        if missing:
            say(f"batch {batch}: {', '.join(missing)}")
            record["rows"] += _measure(missing, batch, settings, record["notes"])
            write_json(out, record)
    for name, path in engines.items():
        rows = [row for row in record["rows"] if row["name"] == name]
        if rows and name not in record["limits"]:
            say(f"{name}: with copies, and layer by layer")
            best = max(rows, key=lambda row: row["images_per_s"])
            record["copies"] += _measure({name: path}, best["batch"], settings, record["notes"], copies=True)
            record["limits"][name] = _limits(path, best)
            write_json(out, record)
    return record


def _begun(settings: Settings, out: Path) -> dict[str, Any]:
    """Return what an earlier run with these settings on this device left unfinished, or a new record."""
    about = {"engine": describe(), "settings": settings.described()}
    if out.is_file():
        found = read_json(out, "record of make offline")
        if (
            isinstance(found, dict)
            and {key: found.get(key) for key in about} == about
            and not _is_whole(found, settings)
        ):
            return found
    machine = {"name": cpu_name(), "cores": len(os.sched_getaffinity(0)), "load": round(os.getloadavg()[0], 1)}
    made = {"measured": datetime.date.today().isoformat(), "machine": machine, "versions": versions()}
    return {**about, **made, "notes": [], "rows": [], "copies": [], "limits": {}}


def _is_whole(record: dict[str, Any], settings: Settings) -> bool:
    there = {(row["name"], row["batch"]) for row in record["rows"]}
    wanted = {(name, batch) for name in settings.engines for batch in settings.batches}
    return wanted <= there and set(settings.engines) <= set(record["limits"])


def _engine(name: str, settings: Settings, work: Path, say: Say) -> Path:
    """Build an engine unless an earlier run built it on this device for these batches."""
    largest = max(settings.batches)
    precision, _, tuned = name.partition("@")
    if tuned and not tuned.isdecimal():
        raise InputError(f"{name!r} is no engine; give a precision, or one with the batch to tune it for: int8@64")
    onnx = settings.onnx or _resnet50(work)
    level = "" if settings.level is None else f"_level{settings.level}"
    path = work / f"{onnx.stem}_{name.replace('+', '_')}_{largest}{level}.engine"
    if path.is_file() and read_json(f"{path}.json")["engine"] == describe():
        return path
    say(f"{name}: building for batches up to {largest}")
    calibration: dict[str, Any] = _calibration(onnx, settings, work) if precision.startswith("int8") else {}
    options = BuildOptions(
        precision, min_batch=1, opt_batch=int(tuned or largest), max_batch=largest, opt_level=settings.level,
        workspace_mb=WORKSPACE_MB, timing_cache=work / "timing.cache", **calibration,
    )  # fmt: skip
    built = build_engine(onnx, path, options)
    say(f"{name}: {built.layers} layers in {built.seconds:.0f} s")
    return path


def _resnet50(work: Path) -> Path:
    path = work / "resnet50.onnx"
    if not path.is_file():
        atomic_write(path, fidelity.recorded_network())
    return path


def _calibration(onnx: Path, settings: Settings, work: Path) -> dict[str, Any]:
    """Return the scales that TensorRT 8.6 wrote for the lab's model; other versions and models calibrate on images."""
    if settings.onnx is None and (ENGINE == "cpu" or trt.__version__.startswith("8.6")):
        return {"calib_cache": fidelity.RECORDING / fidelity.CACHE_FILES["entropy"]}
    path = work / f"{onnx.stem}_calibration.npy"
    if not path.is_file():
        images = fidelity.recorded_images() if settings.onnx is None else _noise(onnx)
        with atomic_path(path) as temporary:
            np.save(temporary, images)
    return {"calib_npy": path, "calib_cache": work / f"{onnx.stem}.cache"}


def _noise(onnx: Path) -> np.ndarray:
    from trtlab.engines.network import parse_onnx

    model = parse_onnx(onnx)
    return np.random.default_rng(0).standard_normal((16, *model.inputs[model.input_name][1:]), dtype=np.float32)


def _measure(
    engines: dict[str, Path], batch: int, settings: Settings, notes: list[str], *, copies: bool = False
) -> list[dict[str, Any]]:
    """Return the rows of the engines at one batch, all numbers of streams in turns; with copies without graphs."""
    options = StreamOptions(settings.streams, cuda_graphs=not copies, copies=copies)
    said: list[str] = []
    with ExitStack() as stack:
        alone = [(path, _alone(name, path, stack)) for name, path in engines.items()]
        rows = measure_streams(alone, [batch], options, seconds=settings.seconds, note=said.append)
    notes += [text for text in said if text not in notes]
    return rows


def _alone(name: str, path: Path, stack: ExitStack) -> Runner:
    runner = load_runner(RunnerSpec("engine", str(path), name))
    stack.callback(runner.close)
    return runner


def _limits(path: Path, best: dict[str, Any]) -> dict[str, Any]:
    """Return where the best point's time goes: by what bounds the layers, and the slowest of them."""
    found = profile_engine(path, best["batch"], PROFILED)
    shares: dict[str, float] = {}
    for layer in found.layers:
        what = layer.bound or ("reformat" if layer.layer_type == "Reformat" else "unknown")
        shares[what] = shares.get(what, 0.0) + layer.share_percent
    kept = ("name", "layer_type", "precision", "time_ms", "share_percent", "bound", "roof_percent")
    return {
        "batch": best["batch"],
        "layers_ms": found.total_ms,
        "batch_ms": 1e3 * best["batch"] / best["images_per_s"],
        "share_percent": shares,
        "roof_ms": sum(layer.time_ms * min(layer.roof_percent or 100.0, 100.0) / 100 for layer in found.layers),
        "peak_gflops": found.roofline.peak_gflops,
        "bandwidth_gb_s": found.roofline.bandwidth_gb_s,
        "slowest": [{key: getattr(layer, key) for key in kept} for layer in found.layers[:SHOWN_LAYERS]],
    }


def place(name: str = "offline.json") -> Path:
    """Return this device's record in docs/results: h200/offline.json for an NVIDIA H200, cpu/offline.json here."""
    gpu = re.search(r"NVIDIA (?:GeForce )?([\w-]+)", describe()["device"])
    return RESULTS / (gpu[1].lower() if gpu and ENGINE == "tensorrt" else "cpu") / name


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write the record, and the tables into docs/throughput.md where the record is one of docs/results."""
    plain = Settings() if ENGINE == "tensorrt" else Settings(batches=(1, 2, 4, 8), seconds=1.0)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", nargs="+", default=plain.engines, help="precisions; int8@64 is tuned for batch 64")
    parser.add_argument("--batches", nargs="+", type=int, default=plain.batches)
    parser.add_argument("--streams", nargs="+", type=int, default=plain.streams)
    parser.add_argument("--seconds", type=float, default=plain.seconds, help="of each point")
    parser.add_argument("--level", type=int, help="builder optimization level, 0 to 5")
    parser.add_argument("--onnx", type=Path, help="in place of the lab's ResNet-50")
    parser.add_argument("--out", type=Path, default=place())
    parser.add_argument("--work", type=Path, default=Path("results/offline"), help="folder that keeps the engines")
    parser.add_argument("--page", action="store_true", help="only write the tables of the records that are there")
    given = vars(parser.parse_args(arguments))
    out, work, only_page = (given.pop(name) for name in ("out", "work", "page"))
    if not only_page:
        settings = Settings(**{key: tuple(value) if isinstance(value, list) else value for key, value in given.items()})
        try:
            run(settings, out, work, lambda text: print(text, file=sys.stderr, flush=True))
        except LabError as error:
            print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
            sys.exit(2)
        print(f"written to {out}")
    if only_page or out.resolve().parent.parent == RESULTS:
        atomic_write(PAGE, in_page(PAGE.read_text(encoding="utf-8")))
        print(f"tables in {PAGE}")


if __name__ == "__main__":
    main()
