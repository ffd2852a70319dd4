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
