"""report, visualize, run.

Heavy modules are imported inside the functions, so that `trtlab --help` is quick, and so that `run --engine` is chosen
before helpers.engine.backend is imported.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from trtcpu.errors import InputError
from trtlab.commands.console import CLASSES_HELP, DATA_HELP, print_line
from trtlab.commands.multivalue import MultiValueCommand
from trtlab.commands.preprocessing_options import Channels, Crop, Mean, Resize, Std, asked_of
from trtlab.commands.spellings import LenientCommand

_ENGINES = ("auto", "tensorrt", "cpu")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(cls=MultiValueCommand, epilog="Example: trtlab report --results results")(report)
    app.command(cls=MultiValueCommand, epilog="Example: trtlab visualize --results fp16.json int8.json --out charts")(
        visualize
    )
    app.command(cls=LenientCommand, epilog="Example: trtlab run --quick --engine cpu --out results")(run)


_Sources = Annotated[
    list[Path] | None,
    typer.Option(
        help="A run's folder, a JSON of bench --output or of parse-log; several after one flag, the first is at home.",
        show_default="results",
    ),
]
_Device = Annotated[str | None, typer.Option(help="What logs ran on that do not name their GPU.")]
DEFAULT = Path("results")


def report(
    results: _Sources = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the report.", show_default="the one run's folder, else report beside the first"),
    ] = None,
    device: _Device = None,
) -> None:
    """Make report.html, report.md, summary.json and the charts (PNG, SVG) from what was measured, side by side."""
    from trtlab.report.findings import contradiction
    from trtlab.report.pages import make_report

    made = make_report(results or [DEFAULT], out, device)
    for number, what, where in made.headline:
        print_line(f"{number:>8}  {what} ({where})")
    print_line(f"measured on {made.results.device}")
    for words, where in made.results.machines.items():
        print_line(f"beside it, on axes of its own: {words} ({where})")
    if wrong := contradiction(made.results):
        print_line(f"note: {wrong}")
    print_line(f"report: {made.html.resolve()}")


def visualize(
    results: _Sources = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the charts.", show_default="charts in or beside the first")
    ] = None,
    device: _Device = None,
) -> None:
    """Draw the charts of what was measured, as PNG and SVG files."""
    from trtlab.report.charts import draw_charts
    from trtlab.report.sources import load_sources

    paths = results or [DEFAULT]
    first = paths[0] if paths[0].is_dir() else paths[0].parent
    drawn = draw_charts(load_sources(paths, device), out or first / "charts")
    if not drawn:
        raise InputError(f"{paths[0]} holds nothing that can be drawn; measure first: trtlab run --out {first}")
    for path in drawn.values():
        print_line(f"{path}, {path.with_suffix('.svg').name}")


def run(
    quick: Annotated[
        bool, typer.Option("--quick", help="Batches 1 and 8, fewer calibration images, shorter measurements.")
    ] = False,
    engine: Annotated[
        str | None, typer.Option(help="auto, tensorrt or cpu.", show_default="$TRT_LAB_ENGINE, else auto")
    ] = None,
    model: Annotated[
        str, typer.Option(help="resnet18, resnet50, or with ImageNet's data any torchvision classifier.")
    ] = "resnet50",
    data: Annotated[
        str | None,
        typer.Option(
            help=f"{DATA_HELP} With --onnx also an .npz of named inputs (or .npy), without labels.",
            show_default="digits; with --onnx seeded noise",
        ),
    ] = None,
    onnx: Annotated[
        Path | None,
        typer.Option(help="An ONNX model of yours in place of --model; without labels drift is its accuracy."),
    ] = None,
    shapes: Annotated[
        list[str] | None, typer.Option(help="With --onnx: the profile, NAME:MIN:OPT:MAX, once for each input.")
    ] = None,
    classes: Annotated[
        Path | None, typer.Option(help=f"With --onnx: {CLASSES_HELP} The data's are matched with them by name.")
    ] = None,
    mean: Mean = None,
    std: Std = None,
    resize: Resize = None,
    crop: Crop = None,
    channels: Channels = None,
    out: Annotated[Path, typer.Option(help="Folder for everything that the run makes.")] = Path("results"),
) -> None:
    """Run everything in order: export, engines, checks, latency, throughput, accuracy, report.

    A run that was stopped goes on where it stopped; what was done before with the same options is not done again.
    """
    _choose_engine(engine)
    from rich.console import Console

    from trtlab.running.run import run as run_all
    from trtlab.running.run_options import RunOptions

    asked = asked_of(mean, std, resize, crop, channels)
    given = {"shapes": tuple(shapes or ()), "classes": classes, "preprocessing": asked}
    if onnx is not None:
        chosen = {"onnx": onnx, **_samples_or_labels(data), **given}
    elif any(given.values()):
        name = next(name for name, value in given.items() if value)
        raise InputError(f"{'--' * (name != 'preprocessing')}{name} is for a model of yours; give it with --onnx")
    else:
        chosen = {"model": model, "data": data or "digits"}
    if asked and "labels" not in chosen:
        raise InputError("preprocessing is for images; give them with --data, such as folder:FOLDER")
    run_all(RunOptions.quickly(out=out, **chosen) if quick else RunOptions(out=out, **chosen), Console())


def _samples_or_labels(data: str | None) -> dict[str, Path | str]:
    """Return what a foreign model is run on: a file of samples, a data set with labels, or nothing."""
    if data is None:
        return {}
    return {"samples": Path(data)} if data.endswith((".npz", ".npy")) else {"labels": data}


def _choose_engine(engine: str | None) -> None:
    """Set the variable that helpers.engine.backend reads when it is first imported."""
    if engine is None:
        return
    if engine not in _ENGINES:
        raise InputError(f"--engine {engine!r} is unknown; choose one of {', '.join(_ENGINES)}")
    loaded = sys.modules.get("helpers.engine.backend")
    if loaded is not None and engine not in ("auto", loaded.ENGINE):
        raise InputError(f"this process already uses the engine {loaded.ENGINE}; start trtlab again for {engine}")
    os.environ["TRT_LAB_ENGINE"] = engine
