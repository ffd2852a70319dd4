"""calib-data, infer, compare, evaluate, sensitivity: what takes images or tensors through an engine.

Heavy modules are imported inside the functions, so that `trtlab --help` is quick.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.tools.files import write_json
from trtcpu.errors import InputError
from trtlab.commands.console import print_line, print_notes, print_table, working
from trtlab.images.preprocessing import IMAGENET, find_images
from trtlab.images.preprocessing_record import NOTHING, Asked, check_tensor, common, of_onnx
from trtlab.options import Amount, BatchSize, Count, Pixels

if TYPE_CHECKING:
    from trtlab.engines.inference import InferenceEngine
    from trtlab.quality.classification import Accuracy
    from trtlab.quality.compare import Drift
    from trtlab.quality.sensitivity import Study


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
    """Preprocess images of the calibration split into a calibration tensor.

    Example: trtlab calib-data --out calib.npy --n 256

    Args:
        out: .npy file to write: float32, n × channels × height × width. OUT.json records the preprocessing.
        n: Number of images.
        batch: Images preprocessed at a time.
        input_size: Height and width of the images: a square --crop. Default: 224.
        data: Data set: digits, imagenette, imagenet:FOLDER, cifar10[:FOLDER] or folder:FOLDER (one folder per class).
        onnx: ONNX model to take size and preprocessing from.
    """
    if input_size is not None:
        if asked.crop is not None:
            raise InputError(f"--input-size {input_size} and --crop say the same; give one")
        asked = replace(asked, crop=(input_size, input_size))
    from helpers.data.datasets import load_dataset
    from trtlab.building.calibration_data import write_calibration_tensor

    preprocessing, note = (asked.completed(*IMAGENET.shape), "") if onnx is None else of_onnx(onnx, asked)
    print_notes(note)
    images = [path for path, _ in load_dataset(data).images("calibration", limit=n)]  # with a progress bar of its own
    if len(images) < n:
        raise InputError(f"the calibration split of {data} has {len(images)} images; give at most that as --n")
    with working("preprocessing") as report:
        for done in write_calibration_tensor(images, out, preprocessing=preprocessing, batch=batch):
            report(f"preprocessing: {done} of {n} images")
    print_line(
        f"{out}: float32 {[n, *preprocessing.shape]}, {out.stat().st_size / 1e6:.1f} MB; {preprocessing.described()}"
    )


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
        topk: Number of classes to show per image.
        skip_unreadable: Report images that cannot be decoded and skip them.
        classes: File with the class names: one per line, a JSON list, or JSON of index and name.
    """
    with working("classifying"):
        from helpers.engine.backend import DEVICE
        from trtlab.engines.inference import InferenceEngine
        from trtlab.models.class_names import read_classes
        from trtlab.quality.classification import classify

        names = read_classes(classes) if classes else None
        paths = find_images(input)
        with InferenceEngine(engine) as loaded:
            _check_batch(loaded, batch_size)
            preprocessing, note = common([loaded], asked)
            found, skipped = classify(loaded, paths, batch_size, topk, preprocessing, skip_unreadable, names)
    print_notes(note)
    rows = [(image.path, *(f"{name} {percent:.1f} %" for name, percent in image.classes)) for image in found]
    columns = ["file", *(f"{rank}." for rank in range(1, len(rows[0])))] if rows else ["file"]
    print_table(f"{engine.name}: {len(rows)} images", columns, rows, DEVICE)
    for message in skipped:
        print_line(f"skipped: {message}")


def compare(*, a: Path, b: Path, calib_npy: Path | None = None, n: Count = 128, batch: BatchSize | None = None) -> None:
    """Compare the outputs of two engines.

    Example: trtlab compare --a fp32.engine --b int8.engine --calib-npy calib.npy

    Args:
        a: Reference engine.
        b: Engine to compare with it.
        calib_npy: Input tensor from calib-data, or an .npz of named inputs. Default: seeded noise.
        n: Number of images, from the start of the tensor.
        batch: Images per batch. Default: 16, or the engines' largest.
    """
    with working("comparing"):
        from helpers.engine.backend import DEVICE
        from trtlab.engines.inference import InferenceEngine
        from trtlab.quality.compare import UNEXPLAINED, compare_engines

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
        if drift.relative > UNEXPLAINED:
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
    """Measure top-1 and top-5, and the loss of each engine against FP32 with its 95 % confidence interval.

    Example: trtlab evaluate --engine fp32.engine int8.engine --num-samples 1000

    Args:
        engine: Engine files, one or more.
        data: Data set: digits, imagenette, imagenet:FOLDER, cifar10[:FOLDER] or folder:FOLDER (one folder per class).
        num_samples: Number of validation images.
        batch_size: Images preprocessed at a time.
        output: JSON file to write.
        classes: File with the class names: one per line, a JSON list, or JSON of index and name. The data's classes are
            matched by name.
    """
    from helpers.data.datasets import load_dataset
    from helpers.engine.backend import DEVICE, describe
    from trtlab.models.class_names import read_classes
    from trtlab.quality.classification import accuracy_loss, evaluate_engines, reference_of

    names = read_classes(classes) if classes else None
    engines = list(dict.fromkeys(engine))
    dataset = load_dataset(data)
    dataset.images("validation", limit=num_samples)  # renders or unpacks with a progress bar of its own
    with working("evaluating") as report:
        results, preprocessing, note = evaluate_engines(engines, dataset, num_samples, batch_size, report, asked, names)
    print_notes(note)
    reference = reference_of(engines)
    losses = {path: accuracy_loss(results[reference], found) for path, found in results.items() if path != reference}
    rows = [_accuracy_row(path, found, losses.get(path)) for path, found in results.items()]
    title = f"accuracy on {results[reference].num_samples} images of {data}; loss against {reference.name}"
    print_table(title, ("engine", ">top-1 %", ">top-5 %", ">loss, points", ">95 % interval"), rows, DEVICE)
    if output is not None:
        found = [
            {"engine": str(path)} | accuracy.to_dict() | {"loss": asdict(losses[path]) if path in losses else None}
            for path, accuracy in results.items()
        ]
        about = {"preprocessing": preprocessing.to_dict(), "reference": str(reference), "rows": found}
        write_json(output, {"engine": describe(), "data": data, **about})


def _accuracy_row(path: Path, found: "Accuracy", loss: Any) -> tuple[str, ...]:
    interval = (f"{loss.points:+.2f}", f"{loss.low:+.2f} to {loss.high:+.2f}") if loss else ("reference", "")
    return (str(path), f"{found.top1:.2f}", f"{found.top5:.2f}", *interval)


def sensitivity(
    *,
    onnx: Path,
    out: Path = Path("sensitivity.json"),
    data: str = "digits",
    calib_cache: Path | None = None,
    calib_npy: Path | None = None,
    num_samples: Count = 500,
    batch_size: BatchSize = 8,
    target_loss: Amount = 0.2,
    layers: bool = False,
    keep_engines: bool = False,
    engine: Path | None = None,
) -> None:
    """Find the layers that INT8 harms, and keep the worst in FP16 until the loss meets a target.

    Example: trtlab sensitivity --onnx model.onnx --calib-npy calib.npy --engine mixed.engine

    Args:
        onnx: ONNX model, an image classifier.
        out: JSON to write after each engine, with a chart next to it. If it exists, the study continues.
        data: Data set: digits, imagenette, imagenet:FOLDER, cifar10[:FOLDER] or folder:FOLDER (one folder per class).
        calib_cache: Calibration cache for all engines.
        calib_npy: Instead of a cache: tensor from calib-data to calibrate with once.
        num_samples: Number of validation images.
        batch_size: Images per batch, for evaluation and timing.
        target_loss: Top-1 loss against FP32 that is allowed, in percentage points.
        layers: Also measure each layer of the two most sensitive groups.
        keep_engines: Keep all engines in OUT.parts.
        engine: File for the mixed engine.
    """
    with working("reading the model") as report:
        from helpers.data.datasets import load_dataset
        from helpers.engine.backend import DEVICE
        from trtlab.quality.sensitivity import Study
        from trtlab.report.charts import draw_pareto

        study = Study(
            onnx=onnx,
            out=out,
            dataset=load_dataset(data),
            calib_cache=calib_cache,
            calib_npy=calib_npy,
            num_samples=num_samples,
            batch_size=batch_size,
            target_loss=target_loss,
            layers=layers,
            keep_engines=keep_engines,
            report=report,
            line=print_line,
        )
        if study.rows:
            print_line(f"{out}: goes on after {len(study.rows)} engines")
        study.run(engine)
        draw_pareto(out.with_suffix(".png"), study.pareto, f"{onnx.name}, {len(study.images)} images\n{DEVICE}")
    _print_rankings(study)
    _print_choice(study, engine)


def _print_rankings(study: "Study") -> None:
    from helpers.engine.arithmetic import arithmetic
    from helpers.engine.backend import DEVICE
    from trtlab.quality.sensitivity import rank

    rows = study.rows
    drifts = ", ".join(f"{name} {rows[name]['drift']:.2e}" for name in ("fp16", "int8+fp16"))
    columns = (">share of INT8's error %", ">drift kept in FP16", ">drift alone in INT8", ">INT8 layers then")
    for what, suffix in (("group", ""), ("layer", "-layer")):
        found = [
            (each.unit, f"{each.share:.1f}", f"{each.keep_drift:.2e}", f"{each.only_drift:.2e}")
            + (rows[f"only{suffix} {each.unit}"]["layers"].get("int8", 0),)
            for each in rank(rows, suffix).itertuples()
        ]
        if found:
            title = f"sensitivity by {what} on {len(study.images)} images; drift against FP32: {drifts}"
            print_table(title, (what, *columns), found, f"{DEVICE}; {arithmetic('fp16')}")


def _print_choice(study: "Study", engine: Path | None) -> None:
    points = [
        (each["name"], f"{each['loss']:+.2f}", f"{each['loss_low']:+.2f} to {each['loss_high']:+.2f}")
        + (f"{each['median_ms']:.3f}",)
        for each in study.pareto
    ]
    title = f"loss of top-1 against latency at batch {study.pareto[0]['batch']}, timed in turns"
    print_table(title, ("engine", ">loss, points", ">95 % interval", ">median ms"), points)
    row, target = study.chosen, study.target_loss
    if row is None:
        print_line(f"no mix loses at most {target:g} points; raise --target-loss, or look at the calibration")
        return
    ran, asked = (", ".join(f"{number} {name}" for name, number in row[key].items()) for key in ("ran", "asked"))
    groups = ", ".join(row["groups"]) or "no group"
    print_line(
        f"{row['name']} loses {row['loss']:+.2f} points (target {target:g}): first and last layer and {groups} in FP16"
    )
    print_line(f"convolutions and matrix products kept: {asked} asked, {ran} ran")
    print_line(f"{engine} is this engine" if engine else "give --engine to have this engine")
    ends = ",".join(f"{name}:fp16" for name in study.first_and_last)
    kept = f"--keep-fp16 {','.join(row['groups'])}" if row["groups"] else f"--layer-precisions {ends}"
    print_line(f"any other batch: trtlab build --onnx {study.onnx} --precision int8+fp16 {kept} …")


def _check_batch(engine: "InferenceEngine", batch: int) -> None:
    if not engine.min_batch <= batch <= engine.max_batch:
        raise InputError(
            f"a batch of {batch} is outside the profile of {engine.name} ({engine.min_batch} to {engine.max_batch}); "
            "choose another or rebuild with --max-batch"
        )
