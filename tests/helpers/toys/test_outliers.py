"""A network that INT8 hurts is the same network in FP32, and equalising takes its large channels back."""

import pytest
import torch
from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck

from helpers.toys.outliers import equalised, pairs, with_outliers

_READ = {BasicBlock: ("conv2",), Bottleneck: ("conv2", "conv3")}
_CHANNELS = 16


@pytest.fixture(params=_READ, ids=lambda block: block.__name__)
def block(request: pytest.FixtureRequest) -> type[BasicBlock | Bottleneck]:
    return request.param


@pytest.fixture
def network(block: type[BasicBlock | Bottleneck]) -> nn.Module:
    """Two residual blocks, layer1.0 and layer1.1: random weights and statistics, and one channel that nobody reads."""
    torch.manual_seed(0)
    outer = _CHANNELS * block.expansion
    model = nn.Sequential()
    model.add_module("layer1", nn.Sequential(block(outer, _CHANNELS), block(outer, _CHANNELS)))
    for norm in (each for each in model.modules() if isinstance(each, nn.BatchNorm2d)):
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.uniform_(norm.running_var, 0.5, 1.5)
        nn.init.normal_(norm.bias, std=0.3)
    nn.init.zeros_(model.layer1[0].conv2.weight[:, 5])
    return model.eval()


def _scores(model: nn.Module) -> torch.Tensor:
    inputs = model.get_submodule("layer1.0.conv1").in_channels
    with torch.inference_mode():
        return model(torch.randn(4, inputs, 12, 12, generator=torch.Generator().manual_seed(1)))


def _largest_read(model: nn.Module, path: str) -> torch.Tensor:
    """Return the largest activation of each channel that the convolution at `path` reads."""
    found = []
    with model.get_submodule(path).register_forward_pre_hook(lambda _, read: found.append(read[0].amax((0, 2, 3)))):
        _scores(model)
    return found[0]


def test_the_network_computes_the_same(network: nn.Module) -> None:
    expected = _scores(network)
    hurt = with_outliers(network, ["layer1.0", "layer1.1"])
    for changed in (hurt, equalised(network), equalised(hurt)):
        torch.testing.assert_close(_scores(changed), expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(_scores(network), expected)  # the copies share no weights with it


@pytest.mark.parametrize(("chosen", "every", "factor"), [({}, 4, 256.0), ({"every": 8, "factor": 32.0}, 8, 32.0)])
def test_the_channels_inside_the_block_are_as_large_as_asked(
    network: nn.Module, block: type[BasicBlock | Bottleneck], chosen: dict, every: int, factor: float
) -> None:
    hurt = with_outliers(network, ["layer1.0"], **chosen)
    expected = torch.tensor([factor, *[1.0] * (every - 1)]).repeat(_CHANNELS // every)
    for name in _READ[block]:
        torch.testing.assert_close(
            _largest_read(hurt, f"layer1.0.{name}"), expected * _largest_read(network, f"layer1.0.{name}")
        )
        torch.testing.assert_close(_largest_read(hurt, f"layer1.1.{name}"), _largest_read(network, f"layer1.1.{name}"))


def test_equalising_makes_both_weights_of_a_channel_equally_large(network: nn.Module) -> None:
    (wanted, *_), (found, *_) = pairs(network), pairs(equalised(network))
    mean = torch.sqrt(torch.stack(wanted.ranges()).prod(0))
    assert int((mean == 0).sum()) == 1 and torch.equal(found.norm.weight[mean == 0], wanted.norm.weight[mean == 0])
    torch.testing.assert_close(found.ranges()[0][mean > 0], mean[mean > 0])
    for first, second in (pair.ranges() for pair in pairs(equalised(network))):
        torch.testing.assert_close(first[second > 0], second[second > 0])


def test_equalising_takes_the_large_channels_back(network: nn.Module, block: type[BasicBlock | Bottleneck]) -> None:
    wanted, found = equalised(network), equalised(with_outliers(network))
    for path in (f"layer1.0.{name}" for name in _READ[block]):
        used = network.get_submodule(path).weight.abs().amax((0, 2, 3)) > 0
        torch.testing.assert_close(_largest_read(found, path)[used], _largest_read(wanted, path)[used])


def test_a_block_that_is_not_there_is_named(network: nn.Module) -> None:
    with pytest.raises(ValueError, match="'layer9.0' is no residual block; there are layer1.0, layer1.1"):
        with_outliers(network, ["layer9.0"])
