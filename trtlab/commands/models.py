"""doctor, export, build.

Heavy modules are imported inside the functions, so that `trtlab --help` is quick.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from trtcpu.errors import EngineUnavailableError
from trtlab.building.build_options import BuildOptions
from trtlab.commands.console import print_line, print_notes, print_table, working
from trtlab.commands.course import instead
from trtlab.engines.tensors import shape_text
from trtlab.images.preprocessing import Preprocessing
from trtlab.images.preprocessing_record import NOTHING, Asked, encoded, of_export
from trtlab.options import BatchSize, Opset, Pixels

if TYPE_CHECKING:
    from trtlab.building.build import BuildRecord
    from trtlab.models.export import ExportRecord

_SHOWN_WARNINGS = 3
_USUAL = BuildOptions()


def doctor(*, sandbox: bool = False) -> None:
    """Show which engines this machine can run, what is missing, and how to install it.

    Example: trtlab doctor

    Args:
        sandbox: Attack the sandboxes that run submissions, and report what held.
    """
    from trtlab.doctor import diagnose

    if sandbox:
        instead("solutions.sandbox")
    diagnosis = diagnose()
    rows = [("ok" if finding.ok else "-", finding.topic, finding.found) for finding in diagnosis.findings]
    print_table("trtlab doctor", ("", "what", "found"), rows)
    for finding in diagnosis.findings:
        if finding.remedy:
            print_line(f"{finding.topic}: {finding.remedy}")
    if not diagnosis.engine:
        raise EngineUnavailableError(f"no engine: {diagnosis.findings[-1].found}")
    print_line(f"the lab uses the engine: {diagnosis.engine}")


def export(
    *,
    out: Path,
    model: str = "resnet50",
    arch: str | None = None,
    weights: Literal["auto", "none"] = "auto",
    input: tuple[str, ...] = (),
    batch_size: BatchSize = 1,
    dynamic_batch: Annotated[bool, Parameter(negative="--static-batch")] = True,
    opset: Opset = 17,
    input_size: Pixels | None = None,
    asked: Asked = NOTHING,
    simplify: bool = False,
    data: str = "digits",
    classes: Path | None = None,
) -> None:
    """Export a PyTorch model to ONNX and check it against PyTorch through ONNX Runtime.

    Example: trtlab export --model resnet50 --out model.onnx --simplify

    Args:
        out: ONNX file to write.
        model: resnet18, resnet50, any torchvision classifier (with ImageNet data), module.py:factory, a state dict
            (.pth, with --arch), a scripted module (.pt) or an exported program (.pt2).
        arch: Architecture of a state dict: a torchvision name or module.py:factory.
        weights: auto: the lab's or ImageNet's weights; none: seeded random weights, no download.
        input: Input as name:shape:dtype, for example tokens:batch,sequence:int64. A named axis is dynamic; name=64
            traces it with size 64. Repeat for each input. Default: input:batch,CHANNELS,SIZE,SIZE:float32.
        batch_size: Images per batch. With --dynamic-batch only the size that is traced.
        dynamic_batch: Make the batch axis dynamic or fixed.
        opset: ONNX operator set, 11 to 23; TensorRT 8.6 parses up to 17.
        input_size: Height and width of the images in pixels. Default: --crop, else 224.
        simplify: Fold constants with onnxsim.
        data: Data set that the weights were trained on: digits, imagenette, imagenet:FOLDER, cifar10[:FOLDER] or
            folder:FOLDER (one folder per class).
        classes: File with the class names: one per line, a JSON list, or JSON of index and name. They are stored in the
            ONNX file and its engines.
    """
    with working(f"loading {model}") as report:
        from helpers.data.models import load_model
        from trtlab.models.class_names import read_classes
        from trtlab.models.export import INPUT_NAME, export_onnx
        from trtlab.models.own_models import image_input, is_own, load_own, parse_inputs, program_inputs

        names = read_classes(classes) if classes else None
        height, width = (input_size, input_size) if input_size is not None else asked.crop or (224, 224)
        number = asked.channels or 3
        inputs = parse_inputs(list(input), batch_size, height) if input else program_inputs(model)
        inputs = inputs or [image_input(INPUT_NAME, batch_size, dynamic_batch, number, height, width)]
        own = weights == "none" or is_own(model)
        # --channels alone is the model's shape, and says nothing of its images
        asked = asked if replace(asked, channels=None) else NOTHING
        preprocessing = of_export(inputs, asked, None if own else (model, data))
        module = load_own(model, arch) if own else load_model(model, data)
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
    inputs = ", ".join(f"{name} {shape_text(shape)}" for name, shape in record.inputs.items())
    batches = ", ".join(map(str, record.checked_batches))
    print_line(
        f"{out}: {record.size_bytes / 1e6:,.2f} MB, opset {record.opset}, {record.nodes} nodes, "
        f"{inputs if [*record.inputs] == ['input'] else f'inputs {inputs}'}; "
        f"relative error against PyTorch {record.relative_error:.1e} (batches {batches})"
    )


def build(*, onnx: Path, engine: Path, options: BuildOptions = _USUAL) -> None:
    """Build an engine from an ONNX model.

    Example: trtlab build --onnx model.onnx --engine int8.engine --precision int8 --calib-npy calib.npy

    Args:
        onnx: ONNX model.
        engine: Engine file to write; ENGINE.json records how it was built.
    """
    notes: list[str] = []
    with working("starting the builder") as report:
        from trtlab.building.build import build_engine

        record = build_engine(onnx, engine, options, progress=report, note=notes.append)
    print_notes(*notes)
    if record.preprocessing and not notes:
        print_line(f"preprocessing: {Preprocessing.from_dict(record.preprocessing, str(engine)).described()}")
    _print_build(engine, record)


def _print_build(engine: Path, record: "BuildRecord") -> None:
    from helpers.engine.arithmetic import has_half

    precisions = ", ".join(f"{number} {name}" for name, number in record.layer_precisions.items())
    print_line(f"{engine}: {record.size_bytes / 1e6:,.2f} MB in {record.seconds:.1f} s; {_profile_text(record)}")
    print_line(f"{record.layers} layers: {precisions}; {record.engine['device']}")
    if record.ran and record.ran["said"]:
        stored_alone = record.ran["said"].startswith("stored") and not has_half(record.precision)
        print_line(record.ran["said"] + (": this processor has no fast arithmetic for it" if stored_alone else ""))
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
    every, asked, ran = (
        ", ".join(f"{number} {name}" for name, number in found[key].items())
        for key in ("asked", "weighted_asked", "weighted_ran")
    )
    if not asked:
        return f"layers with a precision of their own: {every} asked, none of them a convolution or matrix product"
    groups = f"; kept: {', '.join(found['kept_groups'])}, first and last layer" if found["kept_groups"] else ""
    return f"convolutions and matrix products with a precision of their own: {asked} asked, {ran} ran{groups}"


def _profile_text(record: "BuildRecord") -> str:
    if len(record.inputs) == 1 and record.inputs[0]["min"][1:] == record.inputs[0]["max"][1:]:
        return "batch {min} to {max}, tuned for {opt}".format(**record.profile)
    return ", ".join(
        f"{each['name']} {shape_text(each['min'])} to {shape_text(each['max'])}, tuned for {shape_text(each['opt'])}"
        for each in record.inputs
    )


def _metadata(model: str, data: str) -> dict[str, str]:
    """Return what the ONNX file says of itself; `infer` names the classes from it."""
    from helpers.data.imagenet import CIFAR10_GROUPS, class_names

    known = {"digits": [str(digit) for digit in range(10)], "cifar10": list(CIFAR10_GROUPS)}
    classes = known.get(data.partition(":")[0]) or class_names()
    return {"model": model, "data": data, "classes": json.dumps(classes)}
