"""The groups of a network's layers that mixed precision decides about: a ResNet's stem, blocks and classifier.

A ResNet of torchvision is known by its layers' names (`/layer1/layer1.0/conv1/Conv`). Of another network the groups are
the modules that the names begin with, down to a numbered one (`/features/features.3/…` is features.3); where names say
less than that, runs of layers in order: part1, part2, … A group has at least one convolution or matrix product; what
has none (an activation, a pooling) belongs to the group before it.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers.engine.backend import network_flags, trt
from trtcpu.errors import InputError

_WEIGHTED = ("CONVOLUTION", "DECONVOLUTION", "FULLY_CONNECTED", "MATRIX_MULTIPLY")
_LEFT_ALONE = ("CONSTANT", "SHAPE", "QUANTIZE", "DEQUANTIZE", "CAST", "IDENTITY")
_BLOCK = re.compile(r"layer\d+\.\d+")
_NUMBERED = re.compile(r"[._]\d+$")
_FEWEST, _PARTS = 3, 16


@dataclass(frozen=True)
class Group:
    """Layers that get one precision together: the names of all, and of those that multiply by weights."""

    name: str
    layers: tuple[str, ...]
    weighted: tuple[str, ...]


def is_weighted(layer: "trt.ILayer") -> bool:
    """Say whether a layer is one that INT8 makes faster: a convolution or a matrix product."""
    return _kind(layer) in _WEIGHTED


def float_layers(network: "trt.INetworkDefinition") -> "list[trt.ILayer]":
    """Return the layers whose precision can be set: those that compute floats; not shapes, constants, casts or Q/DQ."""
    layers = (network.get_layer(index) for index in range(network.num_layers))
    return [layer for layer in layers if _kind(layer) not in _LEFT_ALONE and all(map(_is_float, _tensors(layer)))]


def groups_of(network: "trt.INetworkDefinition", name: object) -> list[Group]:
    """Return the network's groups from the input to the output; errors call it `name`.

    Raises:
        InputError: it has no convolution and no matrix product.
    """
    layers = float_layers(network)
    if not any(map(is_weighted, layers)):
        raise InputError(f"{name} has no convolution and no matrix product: precision decides nothing there")
    groups = _grouped(layers, _modules([layer.name for layer in layers]))
    return groups if len(groups) >= _FEWEST else _grouped(layers, _runs(layers))


def groups_in_file(onnx_path: str | Path) -> list[Group]:
    """Return the groups of an ONNX file's network; as `groups_of_model`."""
    return groups_of_model(Path(onnx_path).read_bytes(), onnx_path)


def groups_of_model(model: bytes, name: object) -> list[Group]:
    """Return the groups of a serialized ONNX model, as TensorRT's parser names its layers; errors call it `name`.

    Raises:
        InputError: it cannot be parsed, or has no convolution and no matrix product.
    """
    logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(network_flags())
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(model):
        raise InputError(f"{name} cannot be parsed: {parser.get_error(0).desc()}; run the step that makes it again")
    return groups_of(network, name)


def choose_groups(groups: Sequence[Group], names: Sequence[str]) -> list[Group]:
    """Return the groups with these names, in the network's order.

    Raises:
        InputError: a name that none of them has.
    """
    known = {group.name for group in groups}
    for name in names:
        if name not in known:
            raise InputError(f"no group {name!r} in this network; its groups are {', '.join(g.name for g in groups)}")
    return [group for group in groups if group.name in names]


def ends(groups: Sequence[Group]) -> list[str]:
    """Return the names of the network's first and last weighted layer, which mixed precision never quantises."""
    return [groups[0].weighted[0], groups[-1].weighted[-1]]


def _kind(layer: "trt.ILayer") -> str:
    return str(layer.type).rpartition(".")[2]


def _tensors(layer: "trt.ILayer") -> "Iterator[trt.ITensor]":
    """Yield the outputs, and the input that is computed on."""
    if layer.num_inputs and layer.get_input(0) is not None:
        yield layer.get_input(0)
    yield from (layer.get_output(index) for index in range(layer.num_outputs))


def _is_float(tensor: "trt.ITensor") -> bool:
    return tensor.dtype in (trt.float32, trt.float16) and not getattr(tensor, "is_shape_tensor", False)


def _modules(names: Sequence[str]) -> list[str]:
    """Return the module of each layer; "" if its name has none."""
    scopes = [[part for part in name.split("/")[:-1] if part] for name in names]
    blocks = [next((part for part in scope[:2] if _BLOCK.fullmatch(part)), "") for scope in scopes]
    if not any(blocks):
        return [_module(scope) for scope in scopes]
    first, last = blocks.index(next(filter(None, blocks))), max(i for i, block in enumerate(blocks) if block)
    return ["stem"] * first + blocks[first : last + 1] + ["classifier"] * (len(names) - last - 1)


def _module(scope: Sequence[str]) -> str:
    """Return the scope down to its first numbered part: encoder, layers, layers.0, attention is encoder/layers.0."""
    depth = next((index for index, part in enumerate(scope) if index and _NUMBERED.search(part)), 0)
    parts = scope[: depth + 1]
    below = [*parts[1:], ""][: len(parts)]
    return "/".join(part for part, child in zip(parts, below, strict=True) if not child.startswith(f"{part}."))


def _runs(layers: "Sequence[trt.ILayer]") -> list[str]:
    """Return part1, part2, … by position, each with as many weighted layers, in at most 16 parts."""
    size = math.ceil(sum(map(is_weighted, layers)) / _PARTS)
    seen, names = 0, []
    for layer in layers:
        seen += is_weighted(layer)
        names.append(f"part{max(0, seen - 1) // size + 1}")
    return names


def _grouped(layers: "Sequence[trt.ILayer]", keys: Sequence[str]) -> list[Group]:
    """Return one group a key that has weighted layers; the others' layers go with the group before them."""
    heavy = {key for layer, key in zip(layers, keys, strict=True) if key and is_weighted(layer)}
    found: dict[str, list[trt.ILayer]] = {}
    current = next((key for key in keys if key in heavy), "part1")
    for layer, key in zip(layers, keys, strict=True):
        current = key if key in heavy else current
        found.setdefault(current, []).append(layer)
    return [
        Group(name, tuple(each.name for each in members), tuple(each.name for each in members if is_weighted(each)))
        for name, members in found.items()
        if any(map(is_weighted, members))
    ]
