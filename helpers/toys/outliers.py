"""A network that INT8 hurts, and its repair: a few channels made large before a ReLU and small again behind it.

    hurt = with_outliers(onnx.load(artifact("resnet50_simplified.onnx")))    # in layer1.0, every 4th channel, 256 times
    repaired = with_equal_channels(hurt)    # a channel's weights are equally large again

ReLU(s·x) = s·ReLU(x) for s > 0. So the network computes the same in FP32 if you multiply a channel of a convolution by
s and divide the next convolution's weights for that channel by s. INT8 has one scale for all channels of a tensor, and
one for all weights of an output channel: the small activations lose their digits, and so do the small weights.

Source: Nagel, van Baalen, Blankevoort, Welling, "Data-Free Quantization Through Weight Equalization and Bias
Correction", ICCV 2019, section 4.1. Its example, MobileNetV2, has such channels from training.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

_STILL, _MOST_ROUNDS = 0.01, 100


@dataclass(frozen=True)
class Pair:
    """Two convolutions with only a ReLU between them; n channels go from one to the other."""

    name: str
    """The first convolution's."""
    weights: TensorProto
    """The first one's, [n, inputs, height, width]."""
    bias: TensorProto
    """The first one's, [n]."""
    reading: TensorProto
    """The second one's weights, [outputs, n, height, width]."""

    def ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """Return each channel's largest weight [n], in the first convolution and in the second."""
        first, second = (np.abs(numpy_helper.to_array(each)) for each in (self.weights, self.reading))
        return first.max((1, 2, 3)), second.max((0, 2, 3))

    def enlarge(self, factors: np.ndarray) -> None:
        """Multiply the channels between the two by `factors` [n], all above 0; the second takes them back."""
        _multiply(self.weights, factors[:, None, None, None])
        _multiply(self.bias, factors)
        _multiply(self.reading, 1 / factors[:, None, None])


def pairs(model: ModelProto) -> Iterator[Pair]:
    """Yield a model's pairs from the input to the output; its batch norms must be folded into the convolutions."""
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    readers: dict[str, list[NodeProto]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    for first in model.graph.node:
        if first.op_type != "Conv" or len(first.input) < 3:
            continue
        relu = _only_reader(readers, first)
        second = relu and relu.op_type == "Relu" and _only_reader(readers, relu)
        if second and second.op_type == "Conv" and second.input[0] == relu.output[0]:
            yield Pair(first.name, stored[first.input[1]], stored[first.input[2]], stored[second.input[1]])


def with_outliers(model: ModelProto, block: str = "layer1.0", every: int = 4, factor: float = 256.0) -> ModelProto:
    """Return a copy in which every `every`-th channel inside one residual block is `factor` times as large.

    The copy gives the same scores in FP32. A power of two rounds nothing.

    Raises:
        ValueError: the model has no pair of convolutions in that block.
    """
    changed = _copy(model)
    inside = [pair for pair in pairs(changed) if f"/{block}/" in pair.name]
    if not inside:
        raise ValueError(f"no two convolutions with a ReLU between them in a block {block!r}")
    for pair in inside:
        factors = np.ones(pair.bias.dims[0], np.float32)
        factors[::every] = factor
        pair.enlarge(factors)
    return changed


def with_equal_channels(model: ModelProto) -> ModelProto:
    """Return a copy with equalised pairs; this needs no images.

    Let r1 and r2 be a channel's largest weights in a pair. The paper divides the first weights by s = sqrt(r1·r2) / r2
    and multiplies the second ones by s, so that both become sqrt(r1·r2). Pairs share convolutions, so it goes over all
    of them until nothing changes by more than 1 %, a hundred times at most. A channel without weights stays as it is.
    """
    changed = _copy(model)
    for _ in range(_MOST_ROUNDS):
        if max(map(_equalise, pairs(changed)), default=0) <= _STILL:
            break
    return changed


def _equalise(pair: Pair) -> float:
    """Make both weights of each channel equally large; return the largest change, 0.01 for 1 %."""
    first, second = pair.ranges()
    used = (first > 0) & (second > 0)
    factors = np.sqrt(np.divide(second, first, out=np.ones_like(first), where=used))
    pair.enlarge(factors)
    return float(np.abs(np.log(factors)).max())


def _copy(model: ModelProto) -> ModelProto:
    copied = ModelProto()
    copied.CopyFrom(model)
    return copied


def _only_reader(readers: dict[str, list[NodeProto]], node: NodeProto) -> NodeProto | None:
    found = readers.get(node.output[0], [])
    return found[0] if len(found) == 1 else None


def _multiply(tensor: TensorProto, factors: np.ndarray) -> None:
    product = numpy_helper.to_array(tensor) * factors.astype(np.float32)
    tensor.CopyFrom(numpy_helper.from_array(product, tensor.name))
