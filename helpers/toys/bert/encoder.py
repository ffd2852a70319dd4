"""BERT's encoder (Devlin et al., 2018) as a plain PyTorch module, with nothing that only training needs."""

import torch
from torch import nn
from torch.nn import functional

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUTS = ("hidden", "pooled")
"""The names that step 11 exports the encoder with."""

BATCHES, LENGTHS = (1, 8, 32), (8, 32, 128)
"""Least, best and largest batch and length of step 11's engines."""

MASKED = -10_000.0
"""What BERT adds to the score of a token that is padding: its share after the softmax is 0. FP16 holds the number."""

_EPSILON = 1e-12


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.query, self.key, self.value, self.mix = (nn.Linear(width, width) for _ in range(4))
        self.heads, self.fused, self.root = heads, fused, (width // heads) ** 0.5

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        query, key, value = (self._by_head(layer(hidden)) for layer in (self.query, self.key, self.value))
        if self.fused:
            attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        else:
            scores = query @ key.transpose(-1, -2) / self.root + mask
            attended = scores.softmax(-1) @ value
        return self.mix(attended.transpose(1, 2).flatten(2))

    def _by_head(self, values: torch.Tensor) -> torch.Tensor:
        return values.view(*values.shape[:2], self.heads, -1).transpose(1, 2)


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.attention, self.norm_1 = _Attention(width, heads, fused), nn.LayerNorm(width, _EPSILON)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm_2 = nn.LayerNorm(width, _EPSILON)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = self.norm_1(hidden + self.attention(hidden, mask))
        return self.norm_2(hidden + self.narrow(functional.gelu(self.wide(hidden))))


class BertEncoder(nn.Module):
    """Token ids, mask and types [N, L] to each token's vector [N, L, width] and a pooled one [N, width].

    Args:
        words, positions: rows of the tables: the vocabulary, and the most tokens of a sentence.
        width, heads, depth: the length of a token's vector, the heads of each attention, the blocks.
        fused: take PyTorch's scaled_dot_product_attention with a mask of booleans, instead of adding to the scores.
        masked: what is added to the scores of padding.
    """

    def __init__(
        self,
        words: int = 100,
        positions: int = 64,
        width: int = 64,
        heads: int = 4,
        depth: int = 2,
        fused: bool = False,
        masked: float = MASKED,
    ) -> None:
        super().__init__()
        self.words, self.positions, self.types = (nn.Embedding(rows, width) for rows in (words, positions, 2))
        self.norm = nn.LayerNorm(width, _EPSILON)
        self.blocks = nn.ModuleList(_Block(width, heads, fused) for _ in range(depth))
        self.pooler, self.fused, self.masked = nn.Linear(width, width), fused, masked

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (hidden, pooled); the mask is 1 at a token and 0 at padding, the type 0, or 1 in a second sentence."""
        places = torch.arange(input_ids.shape[1], device=input_ids.device)[None].expand(input_ids.shape[0], -1)
        hidden = self.norm(self.words(input_ids) + self.positions(places) + self.types(token_type_ids))
        mask = self._mask(attention_mask[:, None, None, :])
        for block in self.blocks:
            hidden = block(hidden, mask)
        return hidden, torch.tanh(self.pooler(hidden[:, 0]))

    def _mask(self, valid: torch.Tensor) -> torch.Tensor:
        return valid.bool() if self.fused else (1 - valid.float()) * self.masked
