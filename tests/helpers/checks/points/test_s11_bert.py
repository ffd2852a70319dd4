"""What step 11's points rest on: small encoders, which PyTorch and ONNX Runtime compute alike, and their texts."""

import numpy as np
import pytest
import torch

from helpers.checks.points.s11_bert.encoders import encoder_onnx, small_encoder, text_of
from helpers.tools.outputs import onnx_session
from helpers.toys.bert.encoder import OUTPUTS


@pytest.mark.parametrize(("batch", "length"), [(1, 1), (4, 19)])
def test_the_file_that_is_written_node_by_node_computes_what_pytorch_does(batch: int, length: int) -> None:
    text = text_of(np.random.default_rng(length), batch, length)
    with torch.no_grad():
        expected = small_encoder(5)(*map(torch.from_numpy, text.values()))
    for found, wanted in zip(onnx_session(encoder_onnx(5)).run(list(OUTPUTS), text), expected, strict=True):
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-3, atol=1e-4)


def test_texts_end_in_padding_and_one_row_has_none() -> None:
    for seed in range(10):
        text = text_of(np.random.default_rng(seed), 6, 20)
        mask = text["attention_mask"]
        assert mask.sum(axis=1).max() == 20 and mask.sum(axis=1).min() >= 1 and (np.diff(mask, axis=1) <= 0).all()
        assert all(values.dtype == np.int32 and not values[mask == 0].any() for values in text.values())
