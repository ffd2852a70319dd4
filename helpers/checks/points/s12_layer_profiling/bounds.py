"""What is asked of layer_flops(layer), moved_bytes(layer, item_bytes) and bound(flops, moved, gflops, gb_s).

What is right is found by running: a layer of ones counts its own operations, and arrays know their bytes.
"""

from typing import Any

import numpy as np
import torch
from torch.nn import functional

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import Point, point
from helpers.checks.points.s12_layer_profiling.probes import BOUND, BYTES, FLOPS, bound_layers, count_layers
from helpers.checks.probes.student import one_each

_APART = 3.0
"""Least ratio of the two times of a case of `bound`, so that rounding decides nothing."""

Layer = dict[str, Any]


def _layer(*nodes: Layer, read: list[Any] = (), weights: list[Any] = (), written: list[Any] = ()) -> Layer:
    return {"nodes": list(nodes), "read": list(read), "weights": list(weights), "written": list(written)}


def _convolution(case: Case, purpose: str, groups: int = 1) -> tuple[Layer, float]:
    """Return a convolution with a ReLU as one layer, and its operations."""
    random = case.random(purpose)
    batch, channels, kernel, stride = (
        int(random.integers(low, high)) for low, high in ((2, 6), (2, 5), (1, 5), (1, 3))
    )
    channels, outputs, edge = (
        channels * groups,
        groups * int(random.integers(2, 7)),
        kernel + int(random.integers(3, 9)),
    )
    images, filters = (
        torch.ones(batch, channels, edge, edge + 2),
        torch.ones(outputs, channels // groups, kernel, kernel),
    )
    made = functional.conv2d(images, filters, stride=stride, groups=groups)
    shapes = [list(tensor.shape) for tensor in (images, filters)]
    node = {"op": "Conv", "inputs": [*shapes, [outputs]], "output": list(made.shape)}
    relu = {"op": "Relu", "inputs": [list(made.shape)], "output": list(made.shape)}
    layer = _layer(node, relu, read=shapes[:1], weights=[shapes[1], [outputs]], written=[list(made.shape)])
    return layer, 2 * float(made.double().sum()) + made.numel()


def _judge(case: Case, layers: list[tuple[Layer, float]], advice: str) -> str:
    asked = [layer for layer, _ in layers]
    found = one_each(case.call(count_layers, layers=asked).require(FLOPS)["flops"], asked, "layers")
    for (layer, right), flops in zip(layers, found, strict=True):
        if not abs(flops - right) <= 1e-6 * right:
            what = " + ".join(node["op"] for node in layer["nodes"])
            first = layer["nodes"][0]
            where = f"{what} of inputs {first['inputs']} and output {first['output']}"
            raise Missed(f"{right:,.0f} operations in {where}", f"{flops:,.0f}", advice)
    return f"{len(layers)} layers, {layers[0][1]:,.0f} operations in the first"


@point("A convolution's operations, also where it is grouped, and those of what is fused to it")
def convolutions(case: Case) -> str:
    layers = [_convolution(case, f"flops.conv.{groups}", groups) for groups in (1, 3)]
    layer, right = layers[0]
    layers.append(({**layer, "nodes": layer["nodes"][::-1]}, right))
    return _judge(case, layers, "two for each weight of a filter and each output, and one for each output of the ReLU")


@point("Operations of products, poolings and additions, and none where nothing is computed")
def others(case: Case) -> str:
    random = case.random("flops.others")
    rows, inner, columns, channels, edge = map(int, random.permutation(np.arange(3, 9))[:5])  # no two alike
    product = 2 * float((torch.ones(rows, inner) @ torch.ones(inner, columns)).sum())
    gemm = {"op": "Gemm", "inputs": [[rows, inner], [inner, columns], [columns]], "output": [rows, columns]}
    turned = {**gemm, "inputs": [[inner, rows], [inner, columns], [columns]], "transposed": True}
    heads = {"op": "MatMul", "inputs": [[2, channels, rows, inner], [2, channels, inner, columns]]}
    heads["output"] = [2, channels, rows, columns]
    maps, small = [rows, channels, 2 * edge, 3 * edge], [rows, channels, edge, edge]
    window = float(functional.avg_pool2d(torch.ones(*maps), (2, 3)).numel() * 6)
    pool = {"op": "MaxPool", "inputs": [maps], "output": small, "kernel": [2, 3]}
    average = {"op": "GlobalAveragePool", "inputs": [maps], "output": [rows, channels, 1, 1]}
    add = {"op": "Add", "inputs": [maps, maps], "output": maps}
    relu = {"op": "Relu", "inputs": [maps], "output": maps}
    size = float(np.ones(maps).sum())
    layers = [
        (_layer(gemm), product),
        (_layer(turned), product),
        (_layer(heads), 2 * channels * product),
        (_layer(pool), window),
        (_layer({**pool, "op": "AveragePool"}), window),
        (_layer(average), size),
        (_layer(add, relu), 2 * size),
        (_layer(relu, gemm), size + product),
        (_layer(relu, pool), size + window),
        (_layer(relu, average), 2 * size),
        (_layer({"op": "Flatten", "inputs": [maps], "output": [rows, channels * 6 * edge * edge]}, gemm), product),
        (_layer({"op": "Transpose", "inputs": [maps], "output": maps[::-1]}), 0.0),
    ]
    return _judge(case, layers, "look at the task's list of operators; node.output has the shape of the result")


@point("Everything that is read and written is moved once, weights too")
def moved(case: Case) -> str:
    layer, _ = _convolution(case, "bytes.conv")
    skip = _layer(*layer["nodes"], read=[*layer["read"], *layer["written"]], weights=layer["weights"])
    skip["written"] = [*layer["written"], *layer["written"]]
    asked, said = [layer, skip], []
    for kind in (np.float32, np.float16, np.int8):
        item = np.dtype(kind).itemsize
        found = one_each(
            case.call(count_layers, layers=asked, item_bytes=item).require(BYTES)["bytes"], asked, "layers"
        )
        for each, given in zip(asked, found, strict=True):
            right = sum(np.empty(s, kind).nbytes for part in ("read", "weights", "written") for s in each[part])
            if given != right:
                expected = (
                    f"{right:,} bytes at {item} each: reads {each['read']}, {each['weights']}, writes {each['written']}"
                )
                raise Missed(expected, f"{given:,.0f}", "add up the sizes of all three, times the bytes of a number")
        said.append(f"{found[0]:,.0f} bytes")
    return ", ".join(said)


@point("The longer of the two times bounds the layer")
def bounds(case: Case) -> str:
    random = case.random("bounds")
    cases, right = [], []
    for bounded_by in random.permutation(["compute", "memory"] * 3):
        long, short = (float(ms) for ms in random.uniform(1, 3) * np.array([_APART * random.uniform(1, 9), 1.0]))
        compute_ms, memory_ms = (long, short) if bounded_by == "compute" else (short, long)
        gflops, gb_s = float(random.uniform(100, 9e5)), float(random.uniform(20, 4000))
        flops, bytes_moved = compute_ms / 1e3 * gflops * 1e9, memory_ms / 1e3 * gb_s * 1e9
        cases.append({"flops": flops, "moved": bytes_moved, "gflops": gflops, "gb_s": gb_s})
        right.append((str(bounded_by), long))
    found = one_each(case.call(bound_layers, cases=cases).require(BOUND), cases)
    for given, (what, ms) in zip(found, right, strict=True):
        took = given[1] if given[:1] == [what] and len(given) == 2 else None
        if not isinstance(took, float) or not np.isclose(took, ms, rtol=1e-9):
            advice = "both times in milliseconds; the longer one decides"
            raise Missed(f"({what!r}, {ms:.4g})", f"{tuple(given)}"[:80], advice)
    return f"{len(right)} layers on devices of all kinds"


POINTS: tuple[Point, ...] = (convolutions, others, moved, bounds)
