"""Explicitly quantised models, and models with casts, before NVIDIA's own parser and builder: `make rtx`.

TensorRT-RTX builds without a GPU. What it takes is no proof for another TensorRT, yet its parser is the same code, and
networks are strongly typed as in TensorRT 11. The last row is what must be refused: a bias of integers, as ONNX
Runtime's quantiser writes it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
import torchvision
from torch import nn

from helpers.data.models import load_model
from helpers.tools.files import write_json
from helpers.toys.bert.encoder import INPUTS
from tests.tools import own_models
from trtlab.building.calibration_data import CalibrationBatches
from trtlab.building.layer_precisions import Constraints
from trtlab.building.typed import calibrated, explicit_int8, float_model, typed_model
from trtlab.engines.tensors import example
from trtlab.models.export import export_onnx
from trtlab.models.own_models import ModelInput, image_input, parse_inputs

BUILDER = Path(__file__).with_name("rtx_builder.py")
_SEED = 0
PRECISIONS = ("fp16", "bf16", "int8", "int8+fp16")
TYPES = {"fp16": "half", "bf16": "bf16", "int8": "float", "int8+fp16": "half", "naive int8": "float"}
"""What convolutions and matrix products give in each precision; INT8 codes come after them, at a Q."""

REFUSED = "int32 bias"
_IMAGES = image_input("input", 1, True, 3, 224)
_TEXTS = parse_inputs([f"{name}:batch,length:int64" for name in INPUTS], 1, 224)
_BATCH, _NUMBER = 4, 2


@dataclass(frozen=True)
class Model:
    """A network to export, and its inputs."""

    name: str
    module: nn.Module
    inputs: list[ModelInput]


def models() -> Iterator[Model]:
    """Give the networks: the lab's, one with depthwise convolutions and hard swishes, and a transformer."""
    yield Model("ResNet-50", load_model("resnet50", progress=False), [_IMAGES])
    yield Model("MobileNet v3", _settled(torchvision.models.mobilenet_v3_small), [_IMAGES])
    yield Model("BERT", own_models.bert(), _TEXTS)


def _settled(make: Callable[[], nn.Module]) -> nn.Module:
    """Return a network of random weights whose normalisations have seen images.

    Without that the activations die out, layer by layer, until their scales are too small for FP16.
    """
    torch.manual_seed(_SEED)
    module = make().train()
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = None  # the mean over all batches
    with torch.no_grad():
        for _ in range(2):
            module(torch.randn(8, 3, 224, 224))
    return module.eval()


def written(model: Model, folder: Path) -> dict[str, Path]:
    """Write the model in each precision; return the files."""
    path = folder / "float.onnx"
    export_onnx(model.module, path, inputs=model.inputs, simplify=True)
    graph = float_model(path.read_bytes(), str(path))
    scales = calibrated(graph, "minmax", noise(graph), lambda text: None).scales
    made = {
        precision: typed_model(graph, precision, scales if precision.startswith("int8") else None, Constraints())
        for precision in PRECISIONS
    }
    made["naive int8"] = explicit_int8(graph, scales, naive=True)
    files = {}
    for precision, typed in made.items():
        onnx.checker.check_model(typed, full_check=True)
        files[precision] = folder / f"{model.name}-{precision}.onnx".replace(" ", "_")
        onnx.save(typed, str(files[precision]))
    return files


def noise(graph: onnx.ModelProto) -> CalibrationBatches:
    """Return seeded batches for the graph's inputs; dynamic axes behind the first have 16 elements."""
    shapes = {v.name: [d.dim_value or 16 for d in v.type.tensor_type.shape.dim][1:] for v in graph.graph.input}
    types = {v.name: onnx.helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type) for v in graph.graph.input}
    batches = (
        {name: example((_BATCH, *shape), np.dtype(types[name]), seed=seed) for name, shape in shapes.items()}
        for seed in range(_NUMBER)
    )
    return CalibrationBatches("noise", _BATCH, _BATCH * _NUMBER, {n: tuple(s) for n, s in shapes.items()}, batches)


def with_integer_bias(folder: Path) -> Path:
    """Write a convolution as ONNX Runtime's quantiser writes it, with its bias in INT32."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.batches = iter([{"input": example((2, 3, 8, 8), np.dtype(np.float32))}])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.batches, None)

    path, quantised = folder / "conv.onnx", folder / "int32_bias.onnx"
    export_onnx(nn.Conv2d(3, 4, 3).eval(), path, inputs=[image_input("input", 1, True, 3, 8)])
    quantize_static(
        str(path),
        str(quantised),
        Reader(),
        quant_format=QuantFormat.QDQ,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        extra_options={"ActivationSymmetric": True, "WeightSymmetric": True},
    )
    return quantised


def judged(python: Path, files: dict[tuple[str, str], Path]) -> list[dict[str, object]]:
    """Return a row for each file: what TensorRT-RTX made of it, and whether that is right."""
    command = [str(python), str(BUILDER), *map(str, files.values())]
    output = subprocess.run(command, capture_output=True, text=True)
    found = [json.loads(line) for line in output.stdout.splitlines() if line.startswith("{")]
    if len(found) < len(files):
        sys.exit(f"error: TensorRT-RTX ended after {len(found)} of {len(files)} models: {output.stderr[-500:]}")
    rows = []
    for (model, precision), answer in zip(files, found, strict=True):
        if precision == REFUSED:
            right = "Int32" in answer.get("error", "")
        else:
            right = set(answer.get("weighted", {})) == {TYPES[precision]}
        rows.append({"model": model, "precision": precision, "right": right, **answer})
    return rows


def table(rows: list[dict[str, object]]) -> str:
    """Return the rows as Markdown."""
    head = ("model", "precision", "parsed, s", "built, s", "plan, MB", "layers with weights give")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in rows:
        if "error" in row:
            cells = ["–", "–", "–", f"refused: {row['error'][:110]}"]
        else:
            given = ", ".join(f"{kind} ({number})" for kind, number in row["weighted"].items())
            cells = [f"{row['parse_s']:.2f}", f"{row['build_s']:.1f}", f"{row['plan_bytes'] / 1e6:.1f}", given]
        lines.append("| " + " | ".join([row["model"], row["precision"], *cells]) + " |")
    return "\n".join(lines)


def main() -> None:
    """Make the models, have them built, print the table; exit 1 where something is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", type=Path, default=Path(".venv-rtx/bin/python"), help="One with TensorRT-RTX.")
    parser.add_argument("--out", type=Path, help="JSON to write.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files: dict[tuple[str, str], Path] = {}
        for model in models():
            print(f"writing {model.name}", flush=True)
            files |= {(model.name, precision): file for precision, file in written(model, Path(folder)).items()}
        files["a convolution of ONNX Runtime's", REFUSED] = with_integer_bias(Path(folder))
        rows = judged(arguments.python, files)
    print(f"TensorRT-RTX {rows[0]['version']}\n{table(rows)}")
    if arguments.out:
        write_json(
            arguments.out, {"rows": [{key: value for key, value in row.items() if key != "file"} for row in rows]}
        )
    wrong = [f"{row['model']} in {row['precision']}" for row in rows if not row["right"]]
    if wrong:
        sys.exit(f"error: not as it must be: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
