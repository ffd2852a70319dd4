"""A network that INT8 hurts, and its repair: a few channels made large before a ReLU and small again behind it.

    hurt = with_outliers(load_model(MODEL))     # in layer1.0, 16 of 64 channels are 256 times as large
    repaired = equalised(hurt)                  # each channel's weights are equally large before and behind the ReLU

ReLU(s·x) = s·ReLU(x) for s > 0. So a residual block computes the same in FP32 if you multiply a batch norm's channel by
s and divide the next convolution's weights for that channel by s. INT8 has one scale for all channels of a tensor, and
one for all weights of an output channel: the small activations lose their digits, and so do the small weights.

Source: Nagel, van Baalen, Blankevoort, Welling, "Data-Free Quantization Through Weight Equalization and Bias
Correction", ICCV 2019, section 4.1. Its example, MobileNetV2, has such channels from training.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck


@dataclass(frozen=True)
class Pair:
    """Two convolutions with a batch norm and a ReLU between them; n channels go from `first` to `second`."""

    first: nn.Conv2d
    norm: nn.BatchNorm2d
    second: nn.Conv2d

    @torch.no_grad()
    def enlarge(self, factors: torch.Tensor) -> None:
        """Multiply the channels between the two by `factors` [n], all above 0; `second` takes them back."""
        self.norm.weight *= factors
        self.norm.bias *= factors
        self.second.weight /= factors[:, None, None]

    @torch.no_grad()
    def ranges(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return each channel's largest weight [n] in `first`, with the batch norm folded in, and in `second`."""
        folded = self.norm.weight.abs() / (self.norm.running_var + self.norm.eps).sqrt()
        return folded * self.first.weight.abs().amax((1, 2, 3)), self.second.weight.abs().amax((0, 2, 3))


def pairs(model: nn.Module, blocks: Sequence[str] | None = None) -> Iterator[Pair]:
    """Yield a torchvision ResNet's pairs, of the named blocks or of all: one a BasicBlock, two a Bottleneck.

    Raises:
        ValueError: a name that no residual block has.
    """
    known = {name: each for name, each in model.named_modules() if isinstance(each, BasicBlock | Bottleneck)}
    for name in known if blocks is None else blocks:
        if name not in known:
            raise ValueError(f"{name!r} is no residual block; there are {', '.join(known)}")
        block = known[name]
        yield Pair(block.conv1, block.bn1, block.conv2)
        if isinstance(block, Bottleneck):
            yield Pair(block.conv2, block.bn2, block.conv3)


def with_outliers(
    model: nn.Module, blocks: Sequence[str] = ("layer1.0",), every: int = 4, factor: float = 256.0
) -> nn.Module:
    """Return a copy of a ResNet in which every `every`-th channel inside `blocks` is `factor` times as large.

    The copy takes images [N, 3, H, W] and returns scores [N, classes], as `model` does. A power of two rounds nothing.
    """
    changed = copy.deepcopy(model)
    for pair in pairs(changed, blocks):
        factors = torch.ones_like(pair.norm.weight)
        factors[::every] = factor
        pair.enlarge(factors)
    return changed


def equalised(model: nn.Module) -> nn.Module:
    """Return a copy of a ResNet with equalised pairs; this needs no images.

    Let r1 and r2 be a channel's largest weights in a pair. The paper divides the first weights by s = sqrt(r1·r2) / r2
    and multiplies the second ones by s, so that both become sqrt(r1·r2). A channel without weights stays as it is.
    """
    changed = copy.deepcopy(model)
    for pair in pairs(changed):
        first, second = pair.ranges()
        used = (first > 0) & (second > 0)
        pair.enlarge(torch.where(used, (second / first).sqrt(), torch.ones_like(first)))
    return changed
