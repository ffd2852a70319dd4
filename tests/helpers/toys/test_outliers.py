"""A network that INT8 hurts is the same network in FP32, and equalising takes its large channels back."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck

from helpers.toys.outliers import pairs, with_equal_channels, with_outliers

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's older exporter, which step 1 uses

_CHANNELS = 16
_IMAGES = np.random.default_rng(1).normal(size=(4, _CHANNELS, 12, 12)).astype(np.float32)


@pytest.fixture(params=(BasicBlock, Bottleneck), ids=lambda block: block.__name__)
def network(request: pytest.FixtureRequest, tmp_path) -> onnx.ModelProto:
    """Two residual blocks, layer1.0 and layer1.1: random weights and statistics, and one channel that nobody reads."""
    torch.manual_seed(0)
    block, inner = request.param, _CHANNELS // request.param.expansion
    model = nn.Sequential()
    model.add_module("layer1", nn.Sequential(block(_CHANNELS, inner), block(_CHANNELS, inner)))
    for norm in (each for each in model.modules() if isinstance(each, nn.BatchNorm2d)):
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.uniform_(norm.running_var, 0.5, 1.5)
        nn.init.normal_(norm.bias, std=0.3)
    nn.init.zeros_(model.layer1[0].conv2.weight[:, 1])
    path = tmp_path / "network.onnx"
    torch.onnx.export(model.eval(), (torch.from_numpy(_IMAGES),), path, dynamo=False, opset_version=17)
    return onnx.load(path)


def _run(model: onnx.ModelProto, *tensors: str) -> list[np.ndarray]:
    """Return the model's output and further tensors, as ONNX Runtime computes them."""
    asked = onnx.ModelProto()
    asked.CopyFrom(model)
    asked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in tensors)
    session = onnxruntime.InferenceSession(asked.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: _IMAGES})


def _inside(model: onnx.ModelProto) -> list[str]:
    """Return the tensors that the second convolutions of the pairs read."""
    read = {pair.reading.name for pair in pairs(model)}
    return [node.input[0] for node in model.graph.node if node.op_type == "Conv" and node.input[1] in read]


def test_the_network_computes_the_same(network: onnx.ModelProto) -> None:
    expected = _run(network)[0]
    hurt = with_outliers(network)
    for changed in (hurt, with_equal_channels(network), with_equal_channels(hurt)):
        np.testing.assert_allclose(_run(changed)[0], expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(_run(network)[0], expected)  # the copies share no weights with it


@pytest.mark.parametrize(("chosen", "every", "factor"), [({}, 4, 256.0), ({"every": 2, "factor": 32.0}, 2, 32.0)])
def test_the_channels_inside_the_block_are_as_large_as_asked(network, chosen: dict, every: int, factor: float) -> None:
    tensors = _inside(network)
    before, after = _run(network, *tensors)[1:], _run(with_outliers(network, **chosen), *tensors)[1:]
    for name, old, new in zip(tensors, before, after, strict=True):
        wanted = np.ones(old.shape[1], np.float32)
        wanted[::every] = factor if "/layer1.0/" in name else 1
        np.testing.assert_allclose(new, old * wanted[:, None, None], rtol=1e-4, atol=1e-4 * factor)


def test_equalising_takes_the_large_channels_back(network: onnx.ModelProto) -> None:
    tensors = _inside(network)
    wanted, found = (
        _run(with_equal_channels(network), *tensors)[1:],
        _run(with_equal_channels(with_outliers(network)), *tensors)[1:],
    )
    unread = [pair.ranges()[1] == 0 for pair in pairs(network)]
    assert sum(map(np.sum, unread)) == 1
    for some, others, left in zip(wanted, found, unread, strict=True):
        np.testing.assert_allclose(others[:, ~left], some[:, ~left], rtol=0.1, atol=1e-3)


def test_equalising_makes_both_weights_of_a_channel_equally_large(network: onnx.ModelProto) -> None:
    for pair in pairs(with_equal_channels(with_outliers(network))):
        first, second = pair.ranges()
        np.testing.assert_allclose(first[second > 0], second[second > 0], rtol=0.05)


def test_a_block_that_is_not_there_is_named(network: onnx.ModelProto) -> None:
    with pytest.raises(ValueError, match="in a block 'layer9.0'"):
        with_outliers(network, block="layer9.0")
