"""A small decoder for the chapter on language models: prefill and decode step as ONNX files, and INT8 weights in them.

It has the parts of a Llama (RMS norm, attention with a KV cache, gated feed-forward layers, no biases), bytes as its
tokens, positions from a table, and random weights: what it says means nothing, what it costs is real.
"""

import math
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import Tensor, nn

from helpers.toys.number_formats import INT8

VOCABULARY = 256
LARGEST_LENGTH = 1024
OPSET = 17


class _Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.weight


class _Block(nn.Module):
    """Attention to what is in the cache and to the new tokens, then a gated feed-forward layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = _Norm(width), _Norm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        inner = 8 * width // 3 // 64 * 64
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None, past: Tensor | None) -> tuple[Tensor, Tensor]:
        batch, new, width = x.shape
        parts = self.qkv(self.before(x)).reshape(batch, new, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        q = q / math.sqrt(width // self.heads)
        if past is None:
            attended = (q @ k.transpose(-1, -2) + mask).softmax(-1) @ v
        else:
            scores = torch.cat([q @ past[0].transpose(-1, -2), q @ k.transpose(-1, -2)], dim=-1).softmax(-1)
            attended = scores[..., :-1] @ past[1] + scores[..., -1:] @ v
        x = x + self.out(attended.transpose(1, 2).reshape(batch, new, width))
        y = self.between(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y)), torch.stack([k, v])


class Decoder(nn.Module):
    """Random weights, the same for the same seed.

    `forward(tokens [batch, new], positions [new], cache)` returns the logits [batch, 256] behind the last token, and
    the keys and values of the new tokens [layers, 2, batch, heads, new, width / heads]. Without a cache the tokens are
    a prompt, and none sees those behind it. With one, which is such keys and values of all tokens before, there is one
    new token; its keys and values go behind the others, along the axis of the tokens.
    """

    def __init__(self, layers: int = 6, width: int = 512, heads: int = 8, seed: int = 15) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.tokens, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(LARGEST_LENGTH, width)
            self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(layers))
            self.norm, self.head = _Norm(width), nn.Linear(width, VOCABULARY, bias=False)
        self.eval()

    def forward(self, tokens: Tensor, positions: Tensor, cache: Tensor | None = None) -> tuple[Tensor, Tensor]:
        x = self.tokens(tokens) + self.positions(positions)
        mask = (positions[None, :] > positions[:, None]).to(x.dtype) * -1e4 if cache is None else None
        added = []
        for number, block in enumerate(self.blocks):
            x, known = block(x, mask, None if cache is None else cache[number])
            added.append(known)
        return self.head(self.norm(x[:, -1:]))[:, 0], torch.stack(added)

    def empty_cache(self, batch: int, length: int) -> Tensor:
        """Return zeros of the cache's shape."""
        heads, width = self.blocks[0].heads, self.head.in_features
        return torch.zeros(len(self.blocks), 2, batch, heads, length, width // heads)


def export_prefill(model: Decoder, path: str | Path) -> None:
    """Write the prompt's part: int32 `tokens` [batch, length], `positions` [length] → `logits`, `added`."""
    tokens, positions = torch.zeros(2, 8, dtype=torch.int32), torch.arange(8, dtype=torch.int32)
    free = {"tokens": {0: "batch", 1: "length"}, "positions": {0: "length"}, "added": {2: "batch", 4: "length"}}
    _export(model, (tokens, positions), path, free)


def export_decode(model: Decoder, path: str | Path) -> None:
    """Write the step: int32 `tokens` [batch, 1], `positions` [1], float32 `cache` → `logits`, `added`."""
    inputs = torch.zeros(2, 1, dtype=torch.int32), torch.tensor([8], dtype=torch.int32), model.empty_cache(2, 8)
    _export(model, inputs, path, {"tokens": {0: "batch"}, "cache": {2: "batch", 4: "length"}, "added": {2: "batch"}})


def _export(model: Decoder, inputs: tuple[Tensor, ...], path: str | Path, free: dict[str, dict[int, str]]) -> None:
    with warnings.catch_warnings():  # of the exporter that TensorRT 8.6 can read
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            inputs,
            str(path),
            dynamo=False,
            opset_version=OPSET,
            input_names=["tokens", "positions", "cache"][: len(inputs)],
            output_names=["logits", "added"],
            dynamic_axes={**free, "logits": {0: "batch"}},
        )


def with_int8_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy whose constant matrices are INT8, a scale per output column, each behind a DequantizeLinear."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    used = {name for node in graph.node if node.op_type == "MatMul" for name in node.input}
    kept, nodes = [], []
    for tensor in graph.initializer:
        if tensor.name not in used or len(tensor.dims) != 2:
            kept.append(tensor)
            continue
        weights = numpy_helper.to_array(tensor)
        scales = np.maximum(np.abs(weights).max(axis=0), np.float32(1e-30)) / np.float32(INT8.largest)
        parts = (INT8.rounded(weights / scales).astype(np.int8), scales, np.zeros(len(scales), np.int8))
        names = [f"{tensor.name}_{part}" for part in ("int8", "scale", "zero")]
        kept += [numpy_helper.from_array(part, name) for part, name in zip(parts, names, strict=True)]
        nodes.append(helper.make_node("DequantizeLinear", names, [tensor.name], f"{tensor.name}_dq", axis=1))
    nodes += graph.node
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(kept)
    graph.node.extend(nodes)
    return result
