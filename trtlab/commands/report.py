"""report, visualize, run.

Heavy modules are imported inside the functions, so that `trtlab --help` is quick, and so that `run --engine` is chosen
before helpers.engine.backend is imported.
"""

import os
from pathlib import Path
from typing import Literal

from trtcpu.errors import InputError
from trtlab.commands.console import print_line
from trtlab.images.preprocessing_record import NOTHING, Asked
from trtlab.options import Texts

DEFAULT = Path("results")


def report(*, results: tuple[Path, ...] = (DEFAULT,), out: Path | None = None, device: str | None = None) -> None:
    """Make report.html, report.md, summary.json and charts (PNG, SVG) from measurements.

    Example: trtlab report --results results

    Args:
        results: Folders of runs, or JSON from bench --output or parse-log. Speed-ups are against the first.
        out: Folder for the report. Default: the run's folder; with several results, report/ next to the first.
        device: GPU of logs that do not name one.
    """
    from trtlab.report.findings import contradiction
    from trtlab.report.pages import make_report

    made = make_report(list(results), out, device)
    for number, what, where in made.headline:
        print_line(f"{number:>8}  {what} ({where})")
    print_line(f"measured on {made.results.device}")
    for words, where in made.results.machines.items():
        print_line(f"beside it, with charts of its own and no speed-up: {words} ({where})")
    if wrong := contradiction(made.results):
        print_line(f"note: {wrong}")
    print_line(f"report: {made.html.resolve()}")


def visualize(*, results: tuple[Path, ...] = (DEFAULT,), out: Path | None = None, device: str | None = None) -> None:
    """Draw charts of measurements as PNG and SVG files.

    Example: trtlab visualize --results fp16.json int8.json --out charts

    Args:
        results: Folders of runs, or JSON from bench --output or parse-log.
        out: Folder for the charts. Default: charts/ in or next to the first.
        device: GPU of logs that do not name one.
    """
    from trtlab.report.charts import draw_charts
    from trtlab.report.sources import load_sources

    paths = list(results)
    first = paths[0] if paths[0].is_dir() else paths[0].parent
    drawn = draw_charts(load_sources(paths, device), out or first / "charts")
    if not drawn:
        raise InputError(f"{paths[0]} holds nothing that can be drawn; measure first: trtlab run --out {first}")
    for path in drawn.values():
        print_line(f"{path}, {path.with_suffix('.svg').name}")


def run(
    *,
    quick: bool = False,
    engine: Literal["auto", "tensorrt", "cpu"] | None = None,
    model: str = "resnet50",
    data: str | None = None,
    onnx: Path | None = None,
    shapes: Texts = (),
    classes: Path | None = None,
    asked: Asked = NOTHING,
    out: Path = DEFAULT,
) -> None:
    """Run everything in order: export, engines, checks, latency, throughput, accuracy, report.

    A run that was stopped continues where it stopped. Stages that are done with the same options are not repeated.

    Example: trtlab run --quick --engine cpu --out results

    Args:
        quick: Batches 1 and 8, fewer calibration images, shorter measurements, at most a minute for accuracy.
        engine: auto, tensorrt or cpu. Default: $TRT_LAB_ENGINE, else auto.
        model: resnet18, resnet50, or any torchvision classifier (with ImageNet data).
        data: digits, imagenette, imagenet:FOLDER, cifar10[:FOLDER] or folder:FOLDER (one folder per class). With --onnx
            also unlabelled samples: an .npz of named inputs, or .npy. Default: digits; with --onnx seeded noise.
        onnx: Your own ONNX model instead of --model. Without labels the report has drift instead of accuracy.
        shapes: With --onnx: profile as NAME:MIN:OPT:MAX; repeat for each input.
        classes: With --onnx: file with the class names: one per line, a JSON list, or JSON of index and name. The
            data's classes are matched by name.
        out: Folder for all results.
    """
    if engine is not None:
        os.environ["TRT_LAB_ENGINE"] = engine
    from rich.console import Console

    from trtlab.running.run import run as run_all
    from trtlab.running.run_options import RunOptions

    given = {"shapes": shapes, "classes": classes, "preprocessing": asked}
    if onnx is not None:
        samples = data is not None and data.endswith((".npz", ".npy"))
        chosen = {"onnx": onnx, **({"samples": Path(data)} if samples else {"labels": data}), **given}
    elif any(given.values()):
        name = next(name for name, value in given.items() if value)
        raise InputError(f"{'--' * (name != 'preprocessing')}{name} is for a model of yours; give it with --onnx")
    else:
        chosen = {"model": model, "data": data or "digits"}
    if asked and chosen.get("labels") is None:
        raise InputError("preprocessing is for images; give them with --data, such as folder:FOLDER")
    run_all(RunOptions.quickly(out=out, **chosen) if quick else RunOptions(out=out, **chosen), Console())
