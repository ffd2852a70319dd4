"""calib-data, infer, compare, evaluate: what takes images or tensors through an engine.

Heavy modules are imported inside the functions, so that `trtlab --help` is quick.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trtcpu.errors import InputError
from trtlab.commands.console import CLASSES_HELP, DATA_HELP, print_line, print_note, print_table, working
from trtlab.commands.preprocessing_options import Channels, Crop, Mean, Resize, Std, asked_of
from trtlab.commands.spellings import LenientCommand

if TYPE_CHECKING:
    from trtlab.engines.inference import InferenceEngine
    from trtlab.quality.accuracy import Accuracy
    from trtlab.quality.compare import Drift

_MEGABYTE = 1e6


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    examples = {
        calib_data: "calib-data --out calib.npy --n 256",
        infer: "infer --engine fp16.engine --input photos/ --topk 3",
        compare: "compare --a fp32.engine --b int8.engine --calib-npy calib.npy",
        evaluate: "evaluate --engine fp32.engine int8.engine --num-samples 1000",
    }
    for command, example in examples.items():
        app.command(example.split()[0], cls=LenientCommand, epilog=f"Example: trtlab {example}")(command)


def calib_data(
    out: Annotated[
        Path, typer.Option(help=".npy file to write: float32, n × channels × height × width; OUT.json says how.")
    ],
    n: Annotated[int, typer.Option(help="Number of images.")] = 256,
    batch: Annotated[int, typer.Option(help="Images preprocessed at a time.")] = 16,
    input_size: Annotated[
        int | None, typer.Option(help="Height and width of the images: a square --crop.", show_default="224")
    ] = None,
    data: Annotated[str, typer.Option(help=f"Data set: {DATA_HELP}")] = "digits",
    onnx: Annotated[Path | None, typer.Option(help="Take size and preprocessing from this model.")] = None,
    mean: Mean = None,
    std: Std = None,
    resize: Resize = None,
    crop: Crop = None,
    channels: Channels = None,
) -> None:
    """Write a calibration tensor from the calibration split."""
    if input_size is not None and crop is not None:
        raise InputError(f"--input-size {input_size} and --crop {crop} say the same; give one")
    size = str(input_size) if input_size is not None else crop
    asked = asked_of(mean, std, resize, size, channels)
    from helpers.data.datasets import load_dataset
    from trtlab.building.calibration_data import write_calibration_tensor
    from trtlab.images.preprocessing import IMAGENET
    from trtlab.images.preprocessing_record import of_onnx

    preprocessing, note = (asked.completed(*IMAGENET.shape), "") if onnx is None else of_onnx(onnx, asked)
    print_note(note)
    images = [path for path, _ in load_dataset(data).images("calibration", limit=n)]  # with a progress bar of its own
    if len(images) < n:
        raise InputError(f"the calibration split of {data} has {len(images)} images; give at most that as --n")
    with working("preprocessing") as report:
        for done in write_calibration_tensor(images, out, preprocessing=preprocessing, batch=batch):
            report(f"preprocessing: {done} of {n} images")
    shape = [n, *preprocessing.shape]
    print_line(f"{out}: float32 {shape}, {out.stat().st_size / _MEGABYTE:.1f} MB; {preprocessing.described()}")


def infer(
    engine: Annotated[Path, typer.Option(help="Engine file.")],
    input: Annotated[Path, typer.Option(help="An image or a folder of images.")],
    batch_size: Annotated[int, typer.Option(help="Images per batch.")] = 8,
    topk: Annotated[int, typer.Option(help="Classes to show for each image.")] = 5,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Name images that cannot be decoded and go on without them.")
    ] = False,
    mean: Mean = None,
    std: Std = None,
    resize: Resize = None,
    crop: Crop = None,
    channels: Channels = None,
    classes: Annotated[Path | None, typer.Option(help=CLASSES_HELP)] = None,
) -> None:
    """Classify images and print the most probable classes."""
    asked = asked_of(mean, std, resize, crop, channels)
    with working("classifying"):
        from helpers.engine.backend import DEVICE
        from trtlab.engines.inference import InferenceEngine
        from trtlab.images.preprocessing import find_images
        from trtlab.images.preprocessing_record import of_engine
        from trtlab.models.class_names import read_classes
        from trtlab.quality.classify import classify

        names = read_classes(classes) if classes else None
        paths = find_images(input)
        with InferenceEngine(engine) as loaded:
            _check_batch(loaded, batch_size)
            preprocessing, note = of_engine(loaded, asked)
            found, skipped = classify(loaded, paths, batch_size, topk, preprocessing, skip_unreadable, names)
    print_note(note)
    rows = [(image.path, *(f"{name} {percent:.1f} %" for name, percent in image.classes)) for image in found]
    columns = ["file", *(f"{rank}." for rank in range(1, len(rows[0])))] if rows else ["file"]
    print_table(f"{engine.name}: {len(rows)} images", columns, rows, DEVICE)
    for message in skipped:
        print_line(f"skipped: {message}")


def compare(
    a: Annotated[Path, typer.Option("--a", help="Reference engine.")],
    b: Annotated[Path, typer.Option("--b", help="Engine to compare with it.")],
    calib_npy: Annotated[
        Path | None,
        typer.Option(help="Tensor of calib-data, or an .npz of named inputs.", show_default="seeded noise"),
    ] = None,
    n: Annotated[int, typer.Option(help="Number of images, from the first on.")] = 128,
    batch: Annotated[int | None, typer.Option(help="Images per batch (16, or the engines' largest).")] = None,
) -> None:
    """Show how far the outputs of two engines are apart."""
    with working("comparing"):
        from helpers.engine.backend import DEVICE
        from trtlab.engines.inference import InferenceEngine
        from trtlab.images.preprocessing_record import check_tensor
        from trtlab.quality.compare import compare_engines

        with InferenceEngine(a) as first, InferenceEngine(b) as second:
            if batch is not None:
                _check_batch(first, batch)
                _check_batch(second, batch)
            if calib_npy is not None:
                check_tensor([first, second], calib_npy)
            found = compare_engines(first, second, calib_npy, num_samples=n, batch_size=batch or 16)
    for name, drift in found.items():
        of = f", output {name}" if len(found) > 1 else ""
        what = f"{drift.num_samples} {'images' if calib_npy else 'samples of seeded noise'}"
        print_table(f"{b.name} against {a.name}{of}, {what}", ("drift", ">value"), _drift_rows(drift), DEVICE)
        if drift.relative > _MUCH:
            print_line(f"note: {b.name} is {drift.relative:.0%} off {a.name}{of}: find out why before you use it")


_MUCH = 0.1
"""A relative difference that no precision explains."""


def _drift_rows(found: "Drift") -> list[tuple[str, str]]:
    agreement = found.top1_agreement_percent
    return [
        ("relative difference (norm)", f"{found.relative:.2%}"),
        ("saturated values", f"{found.saturated_percent:.2f} %"),
        ("max absolute difference", f"{found.max_absolute:.3e}"),
        ("mean absolute difference", f"{found.mean_absolute:.3e}"),
        ("cosine (mean, least)", f"{found.cosine:.6f}, {found.min_cosine:.6f}"),
        ("top-1 agreement", "– (no classes)" if agreement is None else f"{agreement:.2f} %"),
    ]


def evaluate(
    engine: Annotated[list[Path], typer.Option(help="Engine files, one or more.")],
    data: Annotated[str, typer.Option(help=f"Data set: {DATA_HELP}")] = "digits",
    num_samples: Annotated[int, typer.Option(help="Validation images.")] = 1000,
    batch_size: Annotated[int, typer.Option(help="Images preprocessed at a time.")] = 16,
    mean: Mean = None,
    std: Std = None,
    resize: Resize = None,
    crop: Crop = None,
    channels: Channels = None,
    output: Annotated[Path | None, typer.Option(help="JSON file to write.")] = None,
    classes: Annotated[
        Path | None, typer.Option(help=f"{CLASSES_HELP} The data's classes are matched with them by name.")
    ] = None,
) -> None:
    """Measure top-1 and top-5, and what each engine loses against FP32 (95 % confidence interval)."""
    asked = asked_of(mean, std, resize, crop, channels)
    from helpers.data.datasets import load_dataset
    from helpers.engine.backend import DEVICE, describe
    from helpers.tools.files import write_json
    from trtlab.models.class_names import read_classes
    from trtlab.quality.accuracy import accuracy_loss
    from trtlab.quality.evaluation import evaluate_engines, reference_of

    names = read_classes(classes) if classes else None
    engines = list(dict.fromkeys(engine))
    dataset = load_dataset(data)
    dataset.images("validation", limit=num_samples)  # renders or unpacks with a progress bar of its own
    with working("evaluating") as report:
        how = (num_samples, batch_size, report, asked, names)
        results, preprocessing, note = evaluate_engines(engines, dataset, *how)
    print_note(note)
    reference = reference_of(engines)
    losses = {path: accuracy_loss(results[reference], found) for path, found in results.items() if path != reference}
    rows = [_accuracy_row(path, found, losses.get(path)) for path, found in results.items()]
    number = results[reference].num_samples
    title = f"accuracy on {number} images of {data}; loss against {reference.name}"
    print_table(title, ("engine", ">top-1 %", ">top-5 %", ">loss, points", ">95 % interval"), rows, DEVICE)
    if output is not None:
        found = [
            {"engine": str(path)} | accuracy.to_dict() | {"loss": losses[path].to_dict() if path in losses else None}
            for path, accuracy in results.items()
        ]
        about = {"engine": describe(), "data": data, "preprocessing": preprocessing.to_dict()}
        write_json(output, {**about, "reference": str(reference), "rows": found})


def _accuracy_row(path: Path, found: "Accuracy", loss: Any) -> tuple[str, ...]:
    interval = (f"{loss.points:+.2f}", f"{loss.low:+.2f} to {loss.high:+.2f}") if loss else ("reference", "")
    return (str(path), f"{found.top1:.2f}", f"{found.top5:.2f}", *interval)


def _check_batch(engine: "InferenceEngine", batch: int) -> None:
    if not engine.min_batch <= batch <= engine.max_batch:
        raise InputError(
            f"a batch of {batch} is outside the profile of {engine.name} ({engine.min_batch} to {engine.max_batch}); "
            "choose another or rebuild with --max-batch"
        )
