"""Step 14's points on functions written otherwise, right and wrong, and what they read in a quantised model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s14_explicit_quantisation import placement, results, weights
from helpers.checks.points.s14_explicit_quantisation.networks import (
    BOTH,
    OTHERS,
    SKIPS,
    WEIGHTED,
    explicit_network,
    residual,
)
from helpers.checks.points.s14_explicit_quantisation.reading import compare, read_model, read_quantised
from helpers.checks.probes.student import Student
from helpers.toys.networks import EDGE
from trtcpu.calibration_cache import CalibrationCache, format_cache

Places = list[tuple[str, int]]


def case_of(seed: int = 5, **functions: Any) -> Case:
    return Case(Student.in_process(functions), seed)


def images(number: int = 2) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((number, 3, EDGE, EDGE)).astype(np.float32)


def outputs(model: bytes) -> np.ndarray:
    return onnxruntime.InferenceSession(model).run(None, {"input": images()})[0]


class _Images(CalibrationDataReader):
    def __init__(self) -> None:
        self.left = [{"input": images()}]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


@pytest.fixture(scope="module")
def by_onnxruntime(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., onnx.ModelProto]:
    """ONNX Runtime's own quantiser: symmetric, weights per channel and as pairs, chosen nodes."""
    folder = tmp_path_factory.mktemp("quantised")

    def quantised(model: bytes, nodes: list[str]) -> onnx.ModelProto:
        (source := folder / "model.onnx").write_bytes(model)
        options = {"ActivationSymmetric": True, "WeightSymmetric": True, "AddQDQPairToWeight": True}
        options |= {"QuantizeBias": False, "DedicatedQDQPair": False}
        types = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8, "per_channel": True}
        chosen = {"nodes_to_quantize": nodes, "extra_options": options}
        quantize_static(source, folder / "q.onnx", _Images(), quant_format=QuantFormat.QDQ, **types, **chosen)
        return onnx.load(folder / "q.onnx")

    return quantised


@pytest.mark.parametrize("seed", range(3))
def test_weights_by_onnx_runtime_s_kernel_are_right(seed: int) -> None:
    def by_kernel(values: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
        rows = np.moveaxis(values, axis, 0)
        scales = np.array([max(abs(row.min()), abs(row.max())) / 127 or 1 for row in rows], np.float32)
        model = onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["" : 17]> one (float{list(values.shape)} x, float[{len(scales)}] s, '
            f"int8[{len(scales)}] z) => (int8{list(values.shape)} q) {{ q = QuantizeLinear<axis = {axis}>(x, s, z) }}"
        )
        given = {"x": values, "s": scales, "z": np.zeros(len(scales), np.int8)}
        return onnxruntime.InferenceSession(model.SerializeToString()).run(None, given)[0], scales

    case = case_of(seed, quantize_weights=by_kernel)
    assert [point(case) for point in (weights.scales, weights.codes, weights.silent)]


def test_a_pair_that_clips_at_a_sixteenth_is_not_one() -> None:
    def short(name: str, scale: Any, axis: int | None = None) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
        values = np.asarray(scale, np.float32) / 16
        stored = [
            numpy_helper.from_array(values, "s"),
            numpy_helper.from_array(np.zeros(values.shape, np.int8), "z"),
        ]
        along = {} if axis is None else {"axis": axis}
        make = onnx.helper.make_node
        return [
            make("QuantizeLinear", [name, "s", "z"], ["q"], "Q", **along),
            make("DequantizeLinear", ["q", "s", "z"], ["d"], "DQ", **along),
        ], stored

    with pytest.raises(Missed, match="of the values are others"):
        weights.pair(case_of(make_pair=short))


def test_the_network_s_facts_are_those_of_its_graph() -> None:
    network = residual(case_of())
    graph = onnx.load_from_string(network.model).graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    nodes = {node.name: node for node in graph.node}
    products = [name for name, node in nodes.items() if node.op_type in ("Conv", "Gemm", "MatMul")]
    assert {name for name in products if nodes[name].input[1] in stored} == {*WEIGHTED} != {*products}
    assert {name for name, node in nodes.items() if node.op_type == "Add"} == {*SKIPS, BOTH, *OTHERS}
    for name, axis in WEIGHTED.items():
        outputs_of = {"conv": 0, "prod": 1, "gemm": 0 if name == "gemm0" else 1}
        assert axis == outputs_of[name[:4]], name
    assert {*network.skips.values()} == {0, 1}, "neither 'the first' nor 'the second input' is right for both"
    for name, index in network.skips.items():
        assert "conv" not in nodes[name].input[index] and "conv" in nodes[name].input[1 - index]
    assert np.isfinite(outputs(network.model)).all()


def test_a_model_that_onnx_runtime_quantised_is_read_as_the_original_with_pairs(
    by_onnxruntime: Callable[..., onnx.ModelProto],
) -> None:
    network = residual(case_of())
    layers = [name for name in WEIGHTED if name.startswith("conv")]
    found = read_quantised(by_onnxruntime(network.model, layers).SerializeToString())
    original = read_model(network.model)
    for name in layers:
        for index in (0, 1):
            assert found.pairs[name, index].tensor == original.nodes[name][2][index]
        values = original.stored[original.nodes[name][2][1]]
        scales = found.pairs[name, 1].scales[0]
        live = np.abs(values).max(axis=(1, 2, 3)) > 0
        assert np.allclose(scales[live], np.abs(values).max(axis=(1, 2, 3))[live] / 127, rtol=1e-4)
    assert {name: node[0] for name, node in found.nodes.items()} == {n: node[0] for n, node in original.nodes.items()}


def test_another_weight_in_a_quantised_model_is_seen() -> None:
    network = residual(case_of())
    changed = onnx.load_from_string(network.model)
    tensor = next(tensor for tensor in changed.graph.initializer if tensor.name == "w4")
    values = numpy_helper.to_array(tensor).copy()
    values[0, 0, 0, 0] += 1
    tensor.CopyFrom(numpy_helper.from_array(values, "w4"))
    with pytest.raises(Missed, match="w4 as it was stored"):
        compare(read_model(network.model), read_model(changed.SerializeToString()))


def test_the_explicit_network_has_int8_in_front_of_both_convolutions() -> None:
    found = read_quantised(explicit_network(case_of()))
    assert sorted(found.pairs) == [("conv0", 0), ("conv0", 1), ("conv1", 0), ("conv1", 1)]
    assert all(pair.zeros[0].dtype == np.int8 for pair in found.pairs.values())
    assert np.isfinite(outputs(explicit_network(case_of()))).all()


def test_the_places_of_a_search_by_hand_are_right() -> None:
    def listed(model: onnx.ModelProto) -> Places:
        return [(name, index) for index in (1, 0) for name in WEIGHTED]

    assert "9 layers" not in placement.places(case_of(weighted_inputs=listed))


def test_a_place_that_is_listed_twice_is_told() -> None:
    def twice(model: onnx.ModelProto) -> Places:
        return [(name, index) for name in WEIGHTED for index in (0, 1, 0)]

    with pytest.raises(Missed, match="each place once"):
        placement.places(case_of(weighted_inputs=twice))


def test_either_of_two_convolutions_may_be_the_skip_branch() -> None:
    for index in (0, 1):
        case = case_of(skip_branches=lambda model, index=index: [(BOTH, index)])
        assert f"input {index}" in placement.both(case)
    with pytest.raises(Missed, match=f"one input of {BOTH}"):
        placement.both(case_of(skip_branches=lambda model: [(BOTH, 0), (BOTH, 1)]))


def record(**changes: Any) -> dict[str, Any]:
    found = {
        "layers": {"naive": 77, "fused": 63},
        "ms": {"naive": 37.0, "fused": 24.0},
        "ratio": {"low": 1.5, "median": 1.54, "high": 1.6},
        "drift": {"naive": 0.020, "fused": 0.023, "implicit": 0.023},
        "images": 32,
    }
    return found | changes


@pytest.fixture
def artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"ms": {"naive": 24.0, "fused": 37.0}}, "naive's time over fused's"),
        ({"ratio": {"low": 1.6, "median": 1.54, "high": 1.5}}, "an interval around the ratio"),
        ({"layers": {"naive": 77, "fused": 62}}, "63 layers"),
        ({"layers": {"naive": 63, "fused": 63}}, "more layers where the skip branches stay"),
        ({"drift": {"naive": 0.02}}, "as the notebook writes it"),
        ({"ms": {"naive": float("nan"), "fused": 24.0}}, "numbers above 0"),
    ],
)
def test_numbers_that_do_not_agree_are_told(
    changes: dict[str, Any], told: str, artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "plan_of", lambda case: b"plan")
    monkeypatch.setattr(results.builders, "facts_of", lambda plan, what: {"layers": 63})
    case = case_of()
    (artifacts / results.RECORD).write_text(json.dumps(record()))
    assert "ratio of times 1.54" in results.record(case)
    (artifacts / results.RECORD).write_text(json.dumps(record(**changes)))
    with pytest.raises(Missed, match=told):
        results.record(case)


def with_pairs(model: bytes, scales: dict[str, float], places: Places, change: float = 1.0) -> bytes:
    """Return a model with pairs at places; `change` multiplies the activations' scales."""
    copy = onnx.load_from_string(model)
    graph, reading = copy.graph, read_model(model)
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        for index in [index for name, index in places if name == node.name]:
            tensor, base = node.input[index], f"{node.name}.{index}"
            if tensor in reading.stored:
                largest = np.abs(reading.stored[tensor]).reshape(len(reading.stored[tensor]), -1).max(axis=1)
                scale, along = np.where(largest > 0, largest / 127, 1).astype(np.float32), {"axis": 0}
            else:
                scale, along = np.float32(change * scales[tensor]), {}
            ends = [f"{base}.s", f"{base}.z"]
            for name, value in zip(ends, (scale, np.zeros(np.shape(scale), np.int8)), strict=True):
                graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
            make = onnx.helper.make_node
            nodes.append(make("QuantizeLinear", [tensor, *ends], [f"{base}.q"], f"{base}.Q", **along))
            nodes.append(make("DequantizeLinear", [f"{base}.q", *ends], [f"{base}.d"], f"{base}.DQ", **along))
            node.input[index] = f"{base}.d"
        nodes.append(onnx.NodeProto.FromString(node.SerializeToString()))
    del graph.node[:]
    graph.node.extend(nodes)
    return copy.SerializeToString()


BLOCK = """
<ir_version: 8, opset_import: ["" : 17]>
block (float[batch, 3, 224, 224] input) => (float[batch, 4, 28, 28] output) {
  first = Conv<strides = [8, 8]>(input, w0)
  start = Relu(first)
  path = Conv(start, w1)
  sum = Add(path, start)
  output = Relu(sum)
}
"""


@pytest.fixture(scope="module")
def block() -> bytes:
    """A residual block with named nodes."""
    model, random = onnx.parser.parse_model(BLOCK), np.random.default_rng(3)
    for node in model.graph.node:
        node.name = f"node.{node.output[0]}"
    shapes = {"w0": (4, 3, 1, 1), "w1": (4, 4, 1, 1)}
    for name, shape in shapes.items():
        model.graph.initializer.append(numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name))
    return model.SerializeToString()


LAYERS: Places = [("node.first", 0), ("node.first", 1), ("node.path", 0), ("node.path", 1)]


@pytest.mark.parametrize(
    ("places", "change", "told"),
    [
        ([*LAYERS, ("node.sum", 1)], 1.0, None),
        ([*LAYERS, ("node.sum", 0)], 1.0, "input 1 of node.sum, its skip branch"),
        (LAYERS, 1.0, "its skip branch"),
        ([*LAYERS, ("node.sum", 0), ("node.sum", 1)], 1.0, "its skip branch"),
        ([*LAYERS[:-1], ("node.sum", 1)], 1.0, "the weights of node.path"),
        ([*LAYERS, ("node.sum", 1), ("node.output", 0)], 1.0, "nothing else"),
        ([*LAYERS, ("node.sum", 1)], 2.0, "the cache's scale"),
    ],
)
def test_the_lab_s_file_is_judged_by_its_pairs(
    places: Places, change: float, told: str | None, block: bytes, artifacts: Path
) -> None:
    scales = {name: 0.02 for name in ("input", "start", "path", "sum", "output")}
    (artifacts / results.ONNX_FILE).write_bytes(block)
    (artifacts / results.CACHE).write_bytes(format_cache(CalibrationCache("EntropyCalibration2", scales)))
    (artifacts / results.FILE).write_bytes(with_pairs(block, scales, places, change))
    if told is None:
        assert "2 layers and 1 skip branches" in results.file(case_of())
    else:
        with pytest.raises(Missed, match=told):
            results.file(case_of())
