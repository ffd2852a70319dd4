"""calib-data, infer, compare, evaluate: what takes images or tensors through an engine.

Heavy modules are imported inside the functions, so that `trtlab --help` is quick.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trtcpu.errors import InputError
from trtlab.commands.console import print_line, print_note, print_table, working
from trtlab.images.preprocessing_record import NOTHING, Asked
from trtlab.options import BatchSize, Count, Pixels

if TYPE_CHECKING:
    from trtlab.engines.inference import InferenceEngine
    from trtlab.quality.accuracy import Accuracy
    from trtlab.quality.compare import Drift

_MEGABYTE = 1e6


def calib_data(
    *,
    out: Path,
    n: Count = 256,
    batch: BatchSize = 16,
    input_size: Pixels | None = None,
    data: str = "digits",
    onnx: Path | None = None,
    asked: Asked = NOTHING,
) -> None:
    """Write a calibration tensor from the calibration split.

    Example: trtlab calib-data --out calib.npy --n 256

    Args:
        out: .npy file to write: float32, n × channels × height × width; OUT.json says how.
        n: Number of images.
        batch: Images preprocessed at a time.
        input_size: Height and width of the images: a square --crop; 224 if left out.
        data: Data set: digits, imagenette, imagenet:FOLDER, cifar10[:FOLDER] or folder:FOLDER (one folder a class).
        onnx: Take size and preprocessing from this model.
    """
    if input_size is not None:
        if asked.crop is not None:
            raise InputError(f"--input-size {input_size} and --crop say the same; give one")
        asked = replace(asked, crop=(input_size, input_size))
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
    *,
    engine: Path,
    input: Path,
    batch_size: BatchSize = 8,
    topk: Count = 5,
    skip_unreadable: bool = False,
    asked: Asked = NOTHING,
    classes: Path | None = None,
) -> None:
    """Classify images and print the most probable classes.

    Example: trtlab infer --engine fp16.engine --input photos/ --topk 3

    Args:
        engine: Engine file.
        input: An image or a folder of images.
        batch_size: Images per batch.
        topk: Classes to show for each image.
        skip_unreadable: Name images that cannot be decoded and go on without them.
        classes: Names of the outputs: one a line, a JSON list, or JSON of index and name.
    """
    with working("classifying"):
        from helpers.engine.backend import DEVICE
        from trtlab.engines.inference import InferenceEngine
        from trtlab.images.preprocessing import find_images
        from trtlab.images.preprocessing_record import common
        from trtlab.models.class_names import read_classes
        from trtlab.quality.classify import classify

        names = read_classes(classes) if classes else None
        paths = find_images(input)
        with InferenceEngine(engine) as loaded:
            _check_batch(loaded, batch_size)
            preprocessing, note = common([loaded], asked)
            found, skipped = classify(loaded, paths, batch_size, topk, preprocessing, skip_unreadable, names)
    print_note(note)
    rows = [(image.path, *(f"{name} {percent:.1f} %" for name, percent in image.classes)) for image in found]
    columns = ["file", *(f"{rank}." for rank in range(1, len(rows[0])))] if rows else ["file"]
    print_table(f"{engine.name}: {len(rows)} images", columns, rows, DEVICE)
    for message in skipped:
        print_line(f"skipped: {message}")


def compare(*, a: Path, b: Path, calib_npy: Path | None = None, n: Count = 128, batch: BatchSize | None = None) -> None:
    """Show how far the outputs of two engines are apart.

    Example: trtlab compare --a fp32.engine --b int8.engine --calib-npy calib.npy

    Args:
        a: Reference engine.
        b: Engine to compare with it.
        calib_npy: Tensor of calib-data, or an .npz of named inputs; seeded noise if left out.
        n: Number of images, from the first on.
        batch: Images per batch (16, or the engines' largest).
    """
    with working("comparing"):
        from helpers.engine.backend import DEVICE
        from trtlab.engines.inference import InferenceEngine
        from trtlab.images.preprocessing_record import check_tensor
        from trtlab.quality.compare import compare_engines

        with InferenceEngine(a) as first, InferenceEngine(b) as second:
            for engine in (first, second) if batch else ():
                _check_batch(engine, batch)
            if calib_npy is not None:
                check_tensor([first, second], calib_npy)
            found = compare_engines(first, second, calib_npy, num_samples=n, batch_size=batch or 16)
    for name, drift in found.items():
        of = f", output {name}" if len(found) > 1 else ""
        what = f"{drift.num_samples} {'images' if calib_npy else 'samples of seeded noise'}"
        print_table(f"{b.name} against {a.name}{of}, {what}", ("drift", ">value"), _drift_rows(drift), DEVICE)
        if drift.relative > 0.1:  # no precision explains as much
            print_line(f"note: {b.name} is {drift.relative:.0%} off {a.name}{of}: find out why before you use it")


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
    *,
    engine: tuple[Path, ...],
    data: str = "digits",
    num_samples: Count = 1000,
    batch_size: BatchSize = 16,
    asked: Asked = NOTHING,
    output: Path | None = None,
    classes: Path | None = None,
) -> None:
    """Measure top-1 and top-5, and what each engine loses against FP32 (95 % confidence interval).

    Example: trtlab evaluate --engine fp32.engine int8.engine --num-samples 1000

    Args:
        engine: Engine files, one or more.
        data: Data set: digits, imagenette, imagenet:FOLDER, cifar10[:FOLDER] or folder:FOLDER (one folder a class).
        num_samples: Validation images.
        batch_size: Images preprocessed at a time.
        output: JSON file to write.
        classes: Names of the outputs: one a line, a JSON list, or JSON of index and name. The data's classes are
            matched with them by name.
    """
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
            {"engine": str(path)} | accuracy.to_dict() | {"loss": asdict(losses[path]) if path in losses else None}
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
