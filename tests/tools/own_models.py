"""Models of the kinds that people bring, for docs/models.md: each function returns one, with seeded weights."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

__all__ = ["BertEncoder", "bert", "grey_digits", "mlp", "patches", "small_colour", "tokens", "two_inputs"]


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


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.query, self.key, self.value, self.mix = (nn.Linear(width, width) for _ in range(4))
        self.heads, self.fused = heads, fused

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        query, key, value = (self._by_head(layer(hidden)) for layer in (self.query, self.key, self.value))
        if self.fused:
            attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        else:
            scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5 + mask
            attended = scores.softmax(-1) @ value
        return self.mix(attended.transpose(1, 2).flatten(2))

    def _by_head(self, values: torch.Tensor) -> torch.Tensor:
        return values.view(*values.shape[:2], self.heads, -1).transpose(1, 2)


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.attention, self.norm_1 = _Attention(width, heads, fused), nn.LayerNorm(width)
        self.wide, self.narrow, self.norm_2 = (
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
            nn.LayerNorm(width),
        )

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = self.norm_1(hidden + self.attention(hidden, mask))
        return self.norm_2(hidden + self.narrow(functional.gelu(self.wide(hidden))))


class BertEncoder(nn.Module):
    """BERT's encoder: token ids, mask and types [N, L] to the tokens' states [N, L, width] and a pooled [N, width].

    `fused` takes PyTorch's scaled_dot_product_attention, with a mask of booleans; else a mask of float32's least number
    is added to the scores, as BERT's first implementations do.
    """

    def __init__(
        self,
        words: int = 100,
        positions: int = 64,
        width: int = 64,
        heads: int = 4,
        depth: int = 2,
        fused: bool = False,
    ) -> None:
        super().__init__()
        self.words, self.positions, self.types = (nn.Embedding(rows, width) for rows in (words, positions, 2))
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(_Block(width, heads, fused) for _ in range(depth))
        self.pooler, self.fused = nn.Linear(width, width), fused

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        places = torch.arange(input_ids.shape[1])[None].expand(input_ids.shape[0], -1)
        hidden = self.norm(self.words(input_ids) + self.positions(places) + self.types(token_type_ids))
        mask = self._mask(attention_mask[:, None, None, :])
        for block in self.blocks:
            hidden = block(hidden, mask)
        return hidden, torch.tanh(self.pooler(hidden[:, 0]))

    def _mask(self, valid: torch.Tensor) -> torch.Tensor:
        return valid.bool() if self.fused else (1 - valid.float()) * torch.finfo(torch.float32).min


def bert(fused: bool = False) -> nn.Module:
    """Return a small BERT encoder of 100 words and up to 64 tokens, with norms that scale and shift."""

    def make() -> nn.Module:
        encoder = BertEncoder(fused=fused)
        for norm in (module for module in encoder.modules() if isinstance(module, nn.LayerNorm)):
            nn.init.normal_(norm.weight, 1, 0.1)
            nn.init.normal_(norm.bias, 0, 0.1)
        return encoder

    return _seeded(make)
