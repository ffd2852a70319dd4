"""Small encoders in PyTorch, and text for them: token ids, masks and types at random."""

import numpy as np
import torch

from helpers.toys.bert.encoder import INPUTS, BertEncoder

Text = dict[str, np.ndarray]
_WORDS, _LONGEST, _WIDTH = 100, 128, 32


def small_encoder(seed: int) -> BertEncoder:
    """Return two blocks of width 32 with weights of the seed; norms, too, scale and shift."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        encoder = BertEncoder(words=_WORDS, positions=_LONGEST, width=_WIDTH, heads=4, depth=2)
        for name, weights in encoder.named_parameters():
            if "norm" in name:
                torch.nn.init.normal_(weights, float(name.endswith("weight")), 0.1)
    return encoder.eval()


def text_of(random: np.random.Generator, batch: int, length: int) -> Text:
    """Return ids, mask and types, int32 [batch, length]; one row is full, the others end in padding, of any length."""
    kept = random.integers(1, length + 1, (batch, 1))
    kept[random.integers(batch)] = length
    mask = (np.arange(length) < kept).astype(np.int32)
    ids, types = (random.integers(low, most, (batch, length)) * mask for low, most in ((1, _WORDS), (0, 2)))
    return dict(zip(INPUTS, (ids.astype(np.int32), mask, types.astype(np.int32)), strict=True))
