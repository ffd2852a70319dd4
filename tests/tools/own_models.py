"""Models of the kinds that people bring, for docs/models.md: each function returns one, with seeded weights."""

from collections.abc import Callable

import torch
from torch import nn

from helpers.toys.bert.encoder import BertEncoder


def _seeded(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make().eval()


def mlp() -> nn.Module:
    """Return a multilayer perceptron: [N, 64] to [N, 10]."""
    return _seeded(lambda: nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), _head(256)))


def grey_digits() -> nn.Module:
    """Return a network for grey images: [N, 1, 28, 28] to [N, 10]."""
    return _seeded(lambda: nn.Sequential(*_convolutions(1), _head(64)))


def small_colour() -> nn.Module:
    """Return a network for small colour images: [N, 3, 32, 32] to [N, 10]."""
    return _seeded(lambda: nn.Sequential(*_convolutions(3), _head(64)))


def patches() -> nn.Module:
    """Return a fully convolutional network, which takes any height and width: [N, 3, H, W] to [N, 4, H, W]."""
    return _seeded(lambda: nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 4, 3, padding=1)))


def _convolutions(channels: int) -> list[nn.Module]:
    first = [nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return [*first, nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]


def _head(features: int) -> nn.Module:
    return nn.Linear(features, 10)


class _TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.image, self.facts, self.head = nn.Conv2d(3, 32, 3, 2), nn.Linear(5, 32), nn.Linear(32, 10)

    def forward(self, image: torch.Tensor, facts: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.image(image).mean((2, 3)) + self.facts(facts)))


class _Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.mix, self.head = nn.Embedding(1000, 64), nn.Linear(64, 64), nn.Linear(64, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        words = self.table(ids)
        attended = torch.softmax(words @ words.transpose(1, 2) / 8, dim=-1) @ words
        return self.head(torch.relu(self.mix(attended)).mean(1))


def two_inputs() -> nn.Module:
    """Return a network of an image [N, 3, H, W] and five facts [N, 5], to [N, 10]."""
    return _seeded(_TwoInputs)


def tokens() -> nn.Module:
    """Return a classifier of token ids [N, length] of 1,000 words, to [N, 2]."""
    return _seeded(_Tokens)


def bert(fused: bool = False) -> nn.Module:
    """Return a small BERT encoder of 100 words and up to 64 tokens, with norms that scale and shift.

    Its mask is float32's least number, as in Hugging Face's models: more than FP16 and calibration can hold.
    """

    def make() -> nn.Module:
        encoder = BertEncoder(fused=fused, masked=torch.finfo(torch.float32).min)
        for norm in (module for module in encoder.modules() if isinstance(module, nn.LayerNorm)):
            nn.init.normal_(norm.weight, 1, 0.1)
            nn.init.normal_(norm.bias, 0, 0.1)
        return encoder

    return _seeded(make)
