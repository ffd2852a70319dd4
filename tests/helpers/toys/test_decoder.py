"""The chapter's decoder: a step with the cache says what the whole prompt says, in PyTorch and as ONNX files."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from helpers.toys.decoder import Decoder, export_decode, export_prefill, with_int8_weights

TOKENS = torch.randint(0, 256, (2, 9), generator=torch.Generator().manual_seed(3), dtype=torch.int32)
PLACES = torch.arange(9, dtype=torch.int32)


@pytest.fixture(scope="module")
def model() -> Decoder:
    return Decoder(layers=2, width=64, heads=2)


def _whole(model: Decoder) -> tuple[np.ndarray, np.ndarray]:
    with torch.inference_mode():
        logits, cache = model(TOKENS, PLACES)
    return logits.numpy(), cache.numpy()


def _run(path: Path, **feed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    options = onnxruntime.SessionOptions()  # else it rounds the activations in front of INT8 weights
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(["logits", "added"], feed)


def test_a_step_with_the_cache_says_what_the_whole_prompt_says(model: Decoder) -> None:
    logits, cache = _whole(model)
    with torch.inference_mode():
        _, before = model(TOKENS[:, :8], PLACES[:8])
        stepped, added = model(TOKENS[:, 8:], PLACES[8:], before)
    assert np.allclose(stepped.numpy(), logits, atol=1e-5)
    assert np.allclose(torch.cat([before, added], dim=4).numpy(), cache, atol=1e-5)
    assert cache.shape == tuple(model.empty_cache(2, 9).shape)


def test_no_token_sees_those_behind_it(model: Decoder) -> None:
    changed = TOKENS.clone()
    changed[:, 8] = (changed[:, 8] + 1) % 256
    with torch.inference_mode():
        first, second = model(TOKENS, PLACES)[1], model(changed, PLACES)[1]
    assert torch.equal(first[..., :8, :], second[..., :8, :]) and not torch.equal(first, second)


def test_both_files_say_it_too_at_other_lengths_than_the_exported(model: Decoder, tmp_path: Path) -> None:
    logits, cache = _whole(model)
    export_prefill(model, tmp_path / "prefill.onnx")
    export_decode(model, tmp_path / "decode.onnx")
    whole = _run(tmp_path / "prefill.onnx", tokens=TOKENS.numpy(), positions=PLACES.numpy())
    rest = {"tokens": TOKENS[:, 8:].numpy(), "positions": PLACES[8:].numpy(), "cache": cache[..., :8, :].copy()}
    step = _run(tmp_path / "decode.onnx", **rest)
    for found in (whole[0], step[0]):
        assert np.allclose(found, logits, atol=1e-5)
    assert np.allclose(whole[1], cache, atol=1e-5) and np.allclose(step[1], cache[..., 8:, :], atol=1e-5)


def test_int8_weights_are_those_of_the_layers_rounded_per_column(model: Decoder, tmp_path: Path) -> None:
    export_decode(model, tmp_path / "decode.onnx")
    rounded = with_int8_weights(onnx.load(tmp_path / "decode.onnx"))
    onnx.checker.check_model(rounded)
    onnx.save(rounded, tmp_path / "int8.onnx")
    coarse = Decoder(layers=2, width=64, heads=2)
    layers = [layer for layer in coarse.modules() if isinstance(layer, torch.nn.Linear)]
    assert sum(node.op_type == "DequantizeLinear" for node in rounded.graph.node) == len(layers) == 11
    with torch.inference_mode():
        for layer in layers:
            scale = layer.weight.abs().amax(dim=1, keepdim=True) / 127
            layer.weight.copy_((layer.weight / scale).round() * scale)
        cache = coarse.empty_cache(2, 4) + 0.1
        expected, _ = coarse(TOKENS[:, :1], PLACES[4:5], cache)
    found, _ = _run(
        tmp_path / "int8.onnx", tokens=TOKENS[:, :1].numpy(), positions=PLACES[4:5].numpy(), cache=cache.numpy()
    )
    assert np.allclose(found, expected.numpy(), atol=1e-5)
