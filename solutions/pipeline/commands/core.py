"""doctor, export, build, calib-data, infer, compare, evaluate.

Heavy modules are imported inside the functions, so that `trtlab --help` is quick.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from helpers.errors import EngineUnavailableError, InputError
from solutions.pipeline.commands.console import print_line, print_table, working
from solutions.pipeline.commands.spellings import LenientCommand

if TYPE_CHECKING:
    from solutions.pipeline.accuracy import Accuracy
    from solutions.pipeline.build import BuildRecord
    from solutions.pipeline.compare import Drift
    from solutions.pipeline.export import ExportRecord
    from solutions.pipeline.inference import InferenceEngine

__all__ = ["register"]

_DATA_HELP = "digits, imagenette, imagenet:FOLDER or cifar10."
_MEGABYTE = 1e6
_MOST_PIXELS = 8192
_SHOWN_WARNINGS = 3


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(epilog="Example: trtlab doctor")(doctor)
    examples = {
        export: "export --model resnet50 --out model.onnx --simplify",
        build: "build --onnx model.onnx --engine int8.engine --precision int8 --calib-npy calib.npy",
        calib_data: "calib-data --out calib.npy --n 256",
        infer: "infer --engine fp16.engine --input photos/ --topk 3",
        compare: "compare --a fp32.engine --b int8.engine --calib-npy calib.npy",
        evaluate: "evaluate --engine fp32.engine int8.engine --num-samples 1000",
    }
    for command, example in examples.items():
        app.command(example.split()[0], cls=LenientCommand, epilog=f"Example: trtlab {example}")(command)


def doctor() -> None:
    """Say which engines this machine can run, what is missing, and the command that installs it."""
    from solutions.pipeline.doctor import diagnose

    diagnosis = diagnose()
    rows = [("ok" if finding.ok else "-", finding.topic, finding.found) for finding in diagnosis.findings]
    print_table("trtlab doctor", ("", "what", "found"), rows)
    for finding in diagnosis.missing:
        print_line(f"{finding.topic}: {finding.remedy}")
    if not diagnosis.engine:
        raise EngineUnavailableError(f"no engine: {diagnosis.findings[-1].found}")
    print_line(f"the lab uses the engine: {diagnosis.engine}")


def export(
    out: Annotated[Path, typer.Option(help="ONNX file to write.")],
    model: Annotated[
        str,
        typer.Option(
            help="resnet18, resnet50, or with ImageNet's data any torchvision classifier; module.py:factory, a state "
            "dict (.pth, with --arch), a scripted module (.pt) or an exported program (.pt2)."
        ),
    ] = "resnet50",
    arch: Annotated[
        str | None, typer.Option(help="What a state dict belongs to: a torchvision name or module.py:factory.")
    ] = None,
    weights: Annotated[
        str, typer.Option(help="auto: the lab's or ImageNet's; none: seeded random ones, and nothing is downloaded.")
    ] = "auto",
    input: Annotated[
        list[str] | None,
        typer.Option(
            help="An input as name:shape:dtype, such as tokens:batch,sequence:int64; a name is a dynamic axis, name=64 "
            "traces it with that size. Once for each input.",
            show_default="input:batch,CHANNELS,SIZE,SIZE:float32",
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Images per batch; only what is traced with --dynamic-batch.")] = 1,
    dynamic_batch: Annotated[
        bool, typer.Option("--dynamic-batch/--static-batch", help="Leave the batch axis open, or fix it.")
    ] = True,
    opset: Annotated[int, typer.Option(help="ONNX operator set, 11 to 23; TensorRT 8.6 parses up to 17.")] = 17,
    input_size: Annotated[int, typer.Option(help="Height and width of the images, in pixels.")] = 224,
    channels: Annotated[int, typer.Option(help="Channels of the images: 3 for RGB, 1 for grey.")] = 3,
    simplify: Annotated[bool, typer.Option("--simplify", help="Fold constants with onnxsim.")] = False,
    data: Annotated[str, typer.Option(help=f"The data whose weights to export: {_DATA_HELP}")] = "digits",
) -> None:
    """Export a PyTorch model to ONNX and check it against PyTorch through ONNX Runtime."""
    if weights not in ("auto", "none"):
        raise InputError(f"--weights {weights!r} is unknown; choose auto or none")
    with working(f"loading {model}") as report:
        from helpers.models import load_model
        from solutions.pipeline.export import export_onnx
        from solutions.pipeline.model_inputs import parse_inputs
        from solutions.pipeline.own_models import is_own, load_own, program_inputs

        inputs = parse_inputs(input, batch_size, input_size) if input else program_inputs(model)
        own = is_own(model, weights)
        module = load_own(model, arch, weights) if own else load_model(model, data)
        report("exporting, then checking against PyTorch")
        record = export_onnx(
            module,
            out,
            opset=opset,
            dynamic_batch=dynamic_batch,
            batch_size=batch_size,
            input_size=input_size,
            channels=channels,
            inputs=inputs,
            simplify=simplify,
            metadata={"model": model} if own else _metadata(model, data),
        )
    _print_export(out, record)


def _print_export(out: Path, record: "ExportRecord") -> None:
    shapes = {name: "x".join(map(str, shape)) for name, shape in record.inputs.items()}
    inputs = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    shown = f"input {next(iter(shapes.values()))}" if list(shapes) == ["input"] else f"inputs {inputs}"
    print_line(
        f"{out}: {record.size_bytes / _MEGABYTE:.1f} MB, opset {record.opset}, {record.nodes} nodes, {shown}; "
        f"relative error against PyTorch {record.relative_error:.1e} (batches {_listed(record.checked_batches)})"
    )


def build(
    onnx: Annotated[Path, typer.Option(help="ONNX model.")],
    engine: Annotated[Path, typer.Option(help="Engine file to write; ENGINE.json says how it was built.")],
    precision: Annotated[str, typer.Option(help="fp32, tf32, fp16, bf16, int8 or int8+fp16.")] = "fp32",
    workspace_mb: Annotated[int, typer.Option(help="Memory that tactics may use, in MiB.")] = 2048,
    min_batch: Annotated[
        int | None, typer.Option(help="Smallest batch of a dynamic model's profile, in images (1).")
    ] = None,
    opt_batch: Annotated[int | None, typer.Option(help="Batch to tune for, in images (8).")] = None,
    max_batch: Annotated[int | None, typer.Option(help="Largest batch, in images (32).")] = None,
    shapes: Annotated[
        list[str] | None,
        typer.Option(
            help="Profile of an input as trtexec spells it: NAME:MIN:OPT:MAX such as "
            "tokens:1x8:4x64:8x128, or one shape; once for each input, or with commas."
        ),
    ] = None,
    min_shapes: Annotated[list[str] | None, typer.Option(help="Smallest shapes alone: tokens:1x8.")] = None,
    opt_shapes: Annotated[list[str] | None, typer.Option(help="Shapes to tune for: tokens:4x64.")] = None,
    max_shapes: Annotated[list[str] | None, typer.Option(help="Largest shapes: tokens:8x128.")] = None,
    calib_images: Annotated[Path | None, typer.Option(help="INT8: calibrate with a folder of images.")] = None,
    calib_npy: Annotated[
        Path | None, typer.Option(help="INT8: calibrate with a tensor of calib-data, or an .npz of named inputs.")
    ] = None,
    calib_cache: Annotated[
        Path | None, typer.Option(help="INT8: take the scales from this cache; with calibration data, write it.")
    ] = None,
    calibrator: Annotated[
        str | None, typer.Option(help="INT8: entropy, minmax or percentile (entropy, or the cache's own).")
    ] = None,
    timing_cache: Annotated[Path | None, typer.Option(help="Cache of tactic timings to use and write.")] = None,
    opt_level: Annotated[
        int | None, typer.Option(help="Builder optimization level: 0 (fast build) to 5 (fast engine); TensorRT has 3.")
    ] = None,
) -> None:
    """Build an engine from an ONNX model."""
    with working("starting the builder") as report:
        from solutions.pipeline.build import BuildOptions, build_engine

        options = BuildOptions(
            precision=precision,
            workspace_mb=workspace_mb,
            min_batch=min_batch,
            opt_batch=opt_batch,
            max_batch=max_batch,
            calibrator=calibrator,
            calib_npy=calib_npy,
            calib_images=calib_images,
            calib_cache=calib_cache,
            timing_cache=timing_cache,
            opt_level=opt_level,
            shapes=tuple(shapes or ()),
            min_shapes=tuple(min_shapes or ()),
            opt_shapes=tuple(opt_shapes or ()),
            max_shapes=tuple(max_shapes or ()),
        )
        record = build_engine(onnx, engine, options, progress=report)
    _print_build(engine, record)


def _print_build(engine: Path, record: "BuildRecord") -> None:
    precisions = ", ".join(f"{number} {name}" for name, number in record.layer_precisions.items())
    print_line(f"{engine}: {record.size_bytes / _MEGABYTE:.1f} MB in {record.seconds:.1f} s; {_profile_text(record)}")
    print_line(f"{record.layers} layers: {precisions}; {record.engine['device']}")
    for warning in record.warnings[:_SHOWN_WARNINGS]:
        print_line(f"warning: {' '.join(warning.split())}")
    if len(record.warnings) > _SHOWN_WARNINGS:
        print_line(f"{len(record.warnings)} warnings in all; see {engine}.json")
    if record.calibration:
        print_line("calibration: {calibrator}, {images} images, {source}; cache {cache}".format(**record.calibration))


def _profile_text(record: "BuildRecord") -> str:
    """Return the batches; where more than one batch axis is dynamic, every input's shapes."""
    from solutions.pipeline.tensors import shape_text

    if len(record.inputs) == 1 and record.inputs[0]["min"][1:] == record.inputs[0]["max"][1:]:
        return "batch {min} to {max}, tuned for {opt}".format(**record.profile)
    return ", ".join(
        f"{each['name']} {shape_text(each['min'])} to {shape_text(each['max'])}, tuned for {shape_text(each['opt'])}"
        for each in record.inputs
    )


def calib_data(
    out: Annotated[Path, typer.Option(help=".npy file to write: float32, n × 3 × input-size × input-size.")],
    n: Annotated[int, typer.Option(help="Number of images.")] = 256,
    batch: Annotated[int, typer.Option(help="Images preprocessed at a time.")] = 16,
    input_size: Annotated[int, typer.Option(help="Height and width of the images, in pixels.")] = 224,
    data: Annotated[str, typer.Option(help=f"Data set: {_DATA_HELP}")] = "digits",
) -> None:
    """Write a calibration tensor from the calibration split."""
    if min(n, batch, input_size) < 1 or input_size > _MOST_PIXELS:
        wrong = f"--n {n}, --batch {batch}, --input-size {input_size}"
        raise InputError(f"{wrong}: each must be 1 or more, and the size at most {_MOST_PIXELS} pixels")
    from helpers.data import load_dataset
    from solutions.pipeline.calibration_data import write_calibration_tensor

    images = [path for path, _ in load_dataset(data).images("calibration", limit=n)]  # with a progress bar of its own
    if len(images) < n:
        raise InputError(f"the calibration split of {data} has {len(images)} images; give at most that as --n")
    with working("preprocessing") as report:
        for done in write_calibration_tensor(images, out, size=input_size, batch=batch):
            report(f"preprocessing: {done} of {n} images")
    print_line(f"{out}: float32 [{n}, 3, {input_size}, {input_size}], {out.stat().st_size / _MEGABYTE:.1f} MB")


def infer(
    engine: Annotated[Path, typer.Option(help="Engine file.")],
    input: Annotated[Path, typer.Option(help="An image or a folder of images.")],
    batch_size: Annotated[int, typer.Option(help="Images per batch.")] = 8,
    topk: Annotated[int, typer.Option(help="Classes to show for each image.")] = 5,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Name images that cannot be decoded and go on without them.")
    ] = False,
) -> None:
    """Classify images and print the most probable classes."""
    if topk < 1:
        raise InputError(f"--topk {topk} shows nothing; give 1 or more")
    with working("classifying"):
        from helpers.backend import DEVICE
        from solutions.pipeline.classify import classify
        from solutions.pipeline.inference import InferenceEngine
        from solutions.pipeline.preprocessing import find_images

        paths = find_images(input)
        with InferenceEngine(engine) as loaded:
            _check_batch(loaded, batch_size)
            found, skipped = classify(loaded, paths, batch_size, topk, skip_unreadable)
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
        from helpers.backend import DEVICE
        from solutions.pipeline.compare import compare_engines
        from solutions.pipeline.inference import InferenceEngine

        with InferenceEngine(a) as first, InferenceEngine(b) as second:
            if batch is not None:
                _check_batch(first, batch)
                _check_batch(second, batch)
            found = compare_engines(first, second, calib_npy, num_samples=n, batch_size=batch or 16)
    for name, drift in found.items():
        of = f", output {name}" if len(found) > 1 else ""
        what = f"{drift.num_samples} {'images' if calib_npy else 'samples of seeded noise'}"
        print_table(f"{b.name} against {a.name}{of}, {what}", ("drift", ">value"), _drift_rows(drift), DEVICE)


def _drift_rows(found: "Drift") -> list[tuple[str, str]]:
    agreement = found.top1_agreement_percent
    return [
        ("max absolute difference", f"{found.max_absolute:.3e}"),
        ("mean absolute difference", f"{found.mean_absolute:.3e}"),
        ("relative difference (norm)", f"{found.relative:.3e}"),
        ("cosine (mean, least)", f"{found.cosine:.6f}, {found.min_cosine:.6f}"),
        ("top-1 agreement", "– (no classes)" if agreement is None else f"{agreement:.2f} %"),
    ]


def evaluate(
    engine: Annotated[list[Path], typer.Option(help="Engine files, one or more.")],
    data: Annotated[str, typer.Option(help=f"Data set: {_DATA_HELP}")] = "digits",
    num_samples: Annotated[int, typer.Option(help="Validation images.")] = 1000,
    batch_size: Annotated[int, typer.Option(help="Images preprocessed at a time.")] = 16,
    output: Annotated[Path | None, typer.Option(help="JSON file to write.")] = None,
) -> None:
    """Measure top-1 and top-5, and what each engine loses against FP32 (95 % confidence interval)."""
    if num_samples < 1:
        raise InputError(f"--num-samples {num_samples} measures nothing; give 1 or more")
    from helpers.backend import DEVICE, describe
    from helpers.data import load_dataset
    from helpers.files import write_json
    from solutions.pipeline.accuracy import accuracy_loss
    from solutions.pipeline.evaluation import evaluate_engines, reference_of

    engines = list(dict.fromkeys(engine))
    dataset = load_dataset(data)
    dataset.images("validation", limit=num_samples)  # renders or unpacks with a progress bar of its own
    with working("evaluating") as report:
        results = evaluate_engines(engines, dataset, num_samples, batch_size, report)
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
        write_json(output, {"engine": describe(), "data": data, "reference": str(reference), "rows": found})


def _accuracy_row(path: Path, found: "Accuracy", loss: Any) -> tuple[str, ...]:
    interval = (f"{loss.points:+.2f}", f"{loss.low:+.2f} to {loss.high:+.2f}") if loss else ("reference", "")
    return (str(path), f"{found.top1:.2f}", f"{found.top5:.2f}", *interval)


def _check_batch(engine: "InferenceEngine", batch: int) -> None:
    if not engine.min_batch <= batch <= engine.max_batch:
        raise InputError(
            f"a batch of {batch} is outside the profile of {engine.name} ({engine.min_batch} to {engine.max_batch}); "
            "choose another or rebuild with --max-batch"
        )


def _metadata(model: str, data: str) -> dict[str, str]:
    """Return what the ONNX file says of itself; `infer` names the classes from it."""
    import json

    return {"model": model, "data": data, "classes": json.dumps(_class_names(data))}


def _class_names(data: str) -> list[str]:
    """Return the class of each output of a model for this data."""
    from helpers.imagenet import CIFAR10_GROUPS, class_names

    if data == "digits":
        return [str(digit) for digit in range(10)]
    return list(CIFAR10_GROUPS) if data == "cifar10" else class_names()


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
