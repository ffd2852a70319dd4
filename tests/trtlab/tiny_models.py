"""Networks small enough to export and build in a second, for the tests of the pipeline."""

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper
from PIL import Image
from torch import nn

from trtlab.models.export import export_onnx

SIZE = 32


class TinyNet(nn.Module):
    """Convolution, residual block, pooling, linear layer: [N, 3, S, S] to [N, classes]."""

    def __init__(self, classes: int = 10, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU())
            self.block = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1), nn.BatchNorm2d(16))
            self.head = nn.Linear(16, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.stem(images)
        features = torch.relu(self.block(features) + features)
        return self.head(features.mean(dim=(2, 3)))


def tiny_onnx(folder: Path, *, dynamic: bool = True, batch: int = 1, seed: int = 0) -> Path:
    """Export a TinyNet; returns its ONNX file."""
    path = folder / f"tiny_{'dynamic' if dynamic else batch}_{seed}.onnx"
    if not path.exists():
        export_onnx(TinyNet(seed=seed).eval(), path, dynamic_batch=dynamic, batch_size=batch, input_size=SIZE)
    return path


class OutlierNet(nn.Module):
    """Four convolutions and a linear layer; one channel of what the third reads is 1,000 times as large as the rest.

    The third's weights undo it, so that in floating point nothing is lost; in INT8 the other channels are.
    """

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.first = nn.Conv2d(3, 16, 3, 2, 1)
            self.second, self.third, self.fourth = (nn.Conv2d(16, 16, 3, 1, 1) for _ in range(3))
            self.head = nn.Linear(16, classes)
        with torch.no_grad():
            self.second.weight[0] *= 1000
            self.second.bias[0] *= 1000
            self.third.weight[:, 0] /= 1000

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        for layer in (self.first, self.second, self.third, self.fourth):
            images = torch.relu(layer(images))
        return self.head(images.mean(dim=(2, 3)))


def outlier_onnx(path: Path, classes: int = 10) -> Path:
    """Export an OutlierNet with a dynamic batch."""
    export_onnx(OutlierNet(classes).eval(), path, dynamic_batch=True, batch_size=1, input_size=SIZE)
    return path


def operator_onnx(path: Path, operator: str, inputs: int = 1, domain: str = "") -> Path:
    """Write a model that is one operator on [N, 3, S, S]."""
    names = [f"in{index}" for index in range(inputs)]
    shape = ["batch", 3, SIZE, SIZE]
    graph = helper.make_graph(
        [helper.make_node(operator, names, ["out"], domain=domain)],
        "graph",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
    )
    opsets = [helper.make_opsetid("", 17)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return path


def images_npy(path: Path, number: int = 16, seed: int = 0) -> Path:
    """Write random normal images [number, 3, S, S]."""
    np.save(path, np.random.default_rng(seed).standard_normal((number, 3, SIZE, SIZE), dtype=np.float32))
    return path


def image_folder(folder: Path, number: int = 8) -> Path:
    """Write random images of 48x40 pixels."""
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(number):
        pixels = np.random.default_rng(index).integers(0, 256, (40, 48, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{index:02}.png")
    return folder
