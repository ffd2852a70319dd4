"""Does INT8 hurt the network of helpers/toys/outliers.py, and do the repairs work? By hand, on an idle machine:

    python -m tests.benchmarks.bench_outliers [--models resnet50 resnet18] [--images 500]

Top-1 of each engine on the same validation images, against the INT8 engine of the network as it was trained: the loss
in points, with its paired 95 % interval. Steps 7 and 9 quote such figures. The record is docs/results/*/outliers.json.
"""

import argparse
import datetime
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import onnx

from helpers.data.datasets import load_dataset
from helpers.data.models import load_model
from helpers.engine.backend import describe
from helpers.engine.layer_groups import groups_in_file
from helpers.tools.files import write_json
from helpers.toys.outliers import with_equal_channels, with_outliers
from tests.benchmarks.bench_offline import place
from trtlab.building.build import BuildOptions, build_engine
from trtlab.building.calibration_data import write_calibration_tensor
from trtlab.models.export import export_onnx
from trtlab.quality.classification import accuracy_loss, evaluate_engines

TRAINED = "as trained"


def _say(text: str) -> None:
    print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def networks(name: str, work: Path) -> dict[str, Path]:
    """Write a model as it was trained, with outliers, with one large channel and equalised; return the ONNX files."""
    paths = {TRAINED: work / "trained.onnx"}
    export_onnx(load_model(name, progress=False), paths[TRAINED], simplify=True)
    trained = onnx.load(paths[TRAINED])
    made = {"outliers": with_outliers(trained), "one channel": with_outliers(trained, every=64)}
    made["equalised"] = with_equal_channels(made["outliers"])
    for key, network in made.items():
        paths[key] = work / f"{key}.onnx"
        onnx.save(network, str(paths[key]))
    return paths


def engines(files: dict[str, Path], images: Path, work: Path) -> dict[str, Path]:
    """Build what is compared; return the engines by what they are."""
    block = next(group for group in groups_in_file(files["outliers"]) if group.name == "layer1.0").layers
    readers = [name for name in block if name.endswith(("/conv2/Conv", "/conv3/Conv"))]
    calibrated = {"precision": "int8", "calib_npy": images}
    ways: dict[str, tuple[str, dict[str, Any]]] = {key: (key, calibrated) for key in files}
    ways["one channel, min-max"] = "one channel", {**calibrated, "calibrator": "minmax"}
    for what, kept in (("block kept in FP16", block), ("readers kept in FP16", readers)):
        asked = ("*/Conv:int8", *(f"{name}:fp16" for name in kept))
        cache = work / "outliers.engine.cache"
        ways[what] = "outliers", {"precision": "int8+fp16", "layer_precisions": asked, "calib_cache": cache}
    for what, (key, options) in ways.items():
        timings = {"timing_cache": work / "timing.cache"}
        build_engine(files[key], work / f"{what}.engine", BuildOptions(**options, **timings), _say)
    return {what: work / f"{what}.engine" for what in ways}


def main() -> None:
    """Measure and write docs/results/*/outliers.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["resnet50", "resnet18"])
    parser.add_argument("--calibration", type=int, default=256)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--work", type=Path, default=Path("results/outliers"))
    arguments = parser.parse_args()
    record: dict[str, Any] = {"engine": describe(), "measured": datetime.date.today().isoformat()}
    record |= {"calibration": arguments.calibration, "images": arguments.images, "models": {}}
    data = load_dataset("digits", progress=False)
    arguments.work.mkdir(parents=True, exist_ok=True)
    images = arguments.work / "calibration.npy"
    for _ in write_calibration_tensor([path for path, _ in data.images("calibration", arguments.calibration)], images):
        pass
    for name in arguments.models:
        work = arguments.work / name
        work.mkdir(exist_ok=True)
        paths = engines(networks(name, work), images, work)
        found, _, _ = evaluate_engines(list(paths.values()), data, arguments.images, 8, _say)
        trained = found[paths[TRAINED]]
        record["models"][name] = {
            what: {"top1": found[path].top1, "loss": asdict(accuracy_loss(trained, found[path]))}
            for what, path in paths.items()
        }
        write_json(place("outliers.json"), record)
        for what, row in record["models"][name].items():
            print(f"\r\x1b[K{name}, {what}: top-1 {row['top1']:.1f} %, loss {row['loss']}")


if __name__ == "__main__":
    main()
