"""doctor, export, build.

Heavy modules are imported inside the functions, so that `trtlab --help` is quick.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trtcpu.errors import EngineUnavailableError, InputError
from trtlab.commands.console import CLASSES_HELP, DATA_HELP, print_line, print_note, print_table, working
from trtlab.commands.course import instead
from trtlab.commands.multivalue import split_values
from trtlab.commands.preprocessing_options import Channels, Crop, Mean, Resize, Std, asked_of
from trtlab.commands.spellings import LenientCommand

if TYPE_CHECKING:
    from trtlab.building.build import BuildRecord
    from trtlab.models.export import ExportRecord

_MEGABYTE = 1e6
_SHOWN_WARNINGS = 3


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(epilog="Example: trtlab doctor")(doctor)
    examples = {
        export: "export --model resnet50 --out model.onnx --simplify",
        build: "build --onnx model.onnx --engine int8.engine --precision int8 --calib-npy calib.npy",
    }
    for command, example in examples.items():
        app.command(example.split()[0], cls=LenientCommand, epilog=f"Example: trtlab {example}")(command)


def doctor(
    sandbox: Annotated[
        bool, typer.Option("--sandbox", help="Attack the sandboxes that run submissions, and say what held.")
    ] = False,
) -> None:
    """Say which engines this machine can run, what is missing, and the command that installs it."""
    from trtlab.doctor import diagnose

    if sandbox:
        instead("solutions.sandbox")
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
    input_size: Annotated[
        int | None, typer.Option(help="Height and width of the images, in pixels.", show_default="--crop, else 224")
    ] = None,
    channels: Annotated[
        int | None, typer.Option(help="Channels of the images: 3 for RGB, 1 for grey.", show_default="3")
    ] = None,
    mean: Mean = None,
    std: Std = None,
    resize: Resize = None,
    crop: Crop = None,
    simplify: Annotated[bool, typer.Option("--simplify", help="Fold constants with onnxsim.")] = False,
    data: Annotated[str, typer.Option(help=f"The data whose weights to export: {DATA_HELP}")] = "digits",
    classes: Annotated[Path | None, typer.Option(help=f"{CLASSES_HELP} The file and its engines keep them.")] = None,
) -> None:
    """Export a PyTorch model to ONNX and check it against PyTorch through ONNX Runtime."""
    if weights not in ("auto", "none"):
        raise InputError(f"--weights {weights!r} is unknown; choose auto or none")
    asked = asked_of(mean, std, resize, crop, channels)
    with working(f"loading {model}") as report:
        from helpers.data.models import load_model
        from trtlab.images.preprocessing_record import NOTHING, encoded, of_export
        from trtlab.models.class_names import read_classes
        from trtlab.models.export import INPUT_NAME, check_options, export_onnx
        from trtlab.models.model_inputs import image_input, parse_inputs
        from trtlab.models.own_models import is_own, load_own, program_inputs

        names = read_classes(classes) if classes else None
        height, width = (input_size, input_size) if input_size is not None else asked.crop or (224, 224)
        number = 3 if channels is None else channels
        check_options(opset, batch_size, min(height, width), number)
        inputs = parse_inputs(input, batch_size, height) if input else program_inputs(model)
        inputs = inputs or [image_input(INPUT_NAME, batch_size, dynamic_batch, number, height, width)]
        own = is_own(model, weights)
        # --channels alone is the model's shape, and says nothing of its images
        asked = asked if replace(asked, channels=None) else NOTHING
        preprocessing = of_export(inputs, asked, None if own else (model, data))
        module = load_own(model, arch, weights) if own else load_model(model, data)
        report("exporting, then checking against PyTorch")
        record = export_onnx(
            module,
            out,
            opset=opset,
            inputs=inputs,
            simplify=simplify,
            metadata={**({"model": model} if own else _metadata(model, data)), **encoded(preprocessing)},
            classes=names,
        )
    _print_export(out, record)
    if preprocessing is not None:
        print_line(f"preprocessing: {preprocessing.described()}")


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
    calib_count: Annotated[
        int | None, typer.Option(help="INT8: images of the folder to take, spread evenly.", show_default="all")
    ] = None,
    calib_npy: Annotated[
        Path | None, typer.Option(help="INT8: calibrate with a tensor of calib-data, or an .npz of named inputs.")
    ] = None,
    calib_cache: Annotated[
        Path | None, typer.Option(help="INT8: take the scales from this cache; with calibration data, write it.")
    ] = None,
    calibrator: Annotated[
        str | None, typer.Option(help="INT8: entropy, minmax or percentile (entropy, or the cache's own).")
    ] = None,
    keep_fp16: Annotated[
        list[str] | None,
        typer.Option(help="int8+fp16: groups of layers that stay in FP16, and with them the first and the last layer."),
    ] = None,
    layer_precisions: Annotated[
        list[str] | None, typer.Option(help="Precision of single layers as trtexec spells it: NAME:fp16, * for any.")
    ] = None,
    precision_constraints: Annotated[str, typer.Option(help="obey, or prefer where a kernel may be lacking.")] = "obey",
    explicit: Annotated[
        bool,
        typer.Option(
            "--explicit",
            help="Write the precision into the model, Q/DQ and casts, and build that (ENGINE.onnx); TensorRT 11 has no "
            "other way.",
        ),
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Refuse an engine in which nothing runs in the precision asked for."),
    ] = False,
    timing_cache: Annotated[Path | None, typer.Option(help="Cache of tactic timings to use and write.")] = None,
    opt_level: Annotated[
        int | None, typer.Option(help="Builder optimization level: 0 (fast build) to 5 (fast engine); TensorRT has 3.")
    ] = None,
    mean: Mean = None,
    std: Std = None,
    resize: Resize = None,
    crop: Crop = None,
    channels: Channels = None,
) -> None:
    """Build an engine from an ONNX model."""
    asked = asked_of(mean, std, resize, crop, channels)
    notes: list[str] = []
    with working("starting the builder") as report:
        from trtlab.building.build import BuildOptions, build_engine
        from trtlab.images.preprocessing import Preprocessing

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
            calib_count=calib_count,
            preprocessing=asked,
            shapes=tuple(shapes or ()),
            min_shapes=tuple(min_shapes or ()),
            opt_shapes=tuple(opt_shapes or ()),
            max_shapes=tuple(max_shapes or ()),
            keep_fp16=tuple(split_values(keep_fp16)),
            layer_precisions=tuple(split_values(layer_precisions)),
            precision_constraints=precision_constraints,
            explicit=explicit,
            strict=strict,
        )
        record = build_engine(onnx, engine, options, progress=report, note=notes.append)
    for note in notes:
        print_note(note)
    if record.preprocessing and not notes:
        print_line(f"preprocessing: {Preprocessing.from_dict(record.preprocessing, str(engine)).described()}")
    _print_build(engine, record)


def _print_build(engine: Path, record: "BuildRecord") -> None:
    from helpers.engine.arithmetic import has_half

    precisions = ", ".join(f"{number} {name}" for name, number in record.layer_precisions.items())
    print_line(f"{engine}: {record.size_bytes / _MEGABYTE:.1f} MB in {record.seconds:.1f} s; {_profile_text(record)}")
    print_line(f"{record.layers} layers: {precisions}; {record.engine['device']}")
    if record.ran and record.ran["said"]:
        stored_alone = record.ran["said"].startswith("stored") and not has_half(record.precision)
        print_line(record.ran["said"] + (": this processor has no arithmetic for it" if stored_alone else ""))
    if record.typed_onnx:
        print_line(f"the model with the precision written into it: {record.typed_onnx}")
    if record.layer_constraints:
        print_line(_constraints_text(record.layer_constraints))
    for warning in record.warnings[:_SHOWN_WARNINGS]:
        print_line(f"warning: {' '.join(warning.split())}")
    if len(record.warnings) > _SHOWN_WARNINGS:
        print_line(f"{len(record.warnings)} warnings in all; see {engine}.json")
    if record.calibration:
        used, given = record.calibration["images"], record.calibration["given"]
        number = f"{used} of {given}" if used < given else str(used)
        print_line(
            "calibration: {calibrator}, {number} images, {source}; cache {cache}".format(
                **record.calibration, number=number
            )
        )


def _constraints_text(found: dict[str, Any]) -> str:
    asked, ran = (
        ", ".join(f"{number} {name}" for name, number in found[key].items())
        for key in ("weighted_asked", "weighted_ran")
    )
    groups = f"; kept: {', '.join(found['kept_groups'])}, first and last layer" if found["kept_groups"] else ""
    return f"convolutions and matrix products with a precision of their own: {asked} asked, {ran} ran{groups}"


def _profile_text(record: "BuildRecord") -> str:
    """Return the batches; where more than one batch axis is dynamic, every input's shapes."""
    from trtlab.engines.tensors import shape_text

    if len(record.inputs) == 1 and record.inputs[0]["min"][1:] == record.inputs[0]["max"][1:]:
        return "batch {min} to {max}, tuned for {opt}".format(**record.profile)
    return ", ".join(
        f"{each['name']} {shape_text(each['min'])} to {shape_text(each['max'])}, tuned for {shape_text(each['opt'])}"
        for each in record.inputs
    )


def _metadata(model: str, data: str) -> dict[str, str]:
    """Return what the ONNX file says of itself; `infer` names the classes from it."""
    import json

    return {"model": model, "data": data, "classes": json.dumps(_class_names(data))}


def _class_names(data: str) -> list[str]:
    """Return the class of each output of a model for this data."""
    from helpers.data.imagenet import CIFAR10_GROUPS, class_names

    if data == "digits":
        return [str(digit) for digit in range(10)]
    return list(CIFAR10_GROUPS) if data.partition(":")[0] == "cifar10" else class_names()


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
