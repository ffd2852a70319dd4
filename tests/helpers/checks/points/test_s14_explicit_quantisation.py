"""What step 14's points rest on: their networks, and what they read in models that ONNX Runtime quantised."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree
from helpers.checks.points.s14_explicit_quantisation import pairs
from helpers.checks.points.s14_explicit_quantisation.networks import LEFT_IN_FLOAT, explicit_network, residual
from helpers.checks.points.s14_explicit_quantisation.reading import pairs_at, read_model, skip_branches, weighted_layers
from helpers.checks.probes.student import Student

MODEL, _, NAMES = residual(np.random.default_rng(5))
BY_NAME = {name: output for output, name in NAMES.items()}


def case_of(**functions: Any) -> Case:
    return Case(Student.in_process(functions), 5)


class _Images(CalibrationDataReader):
    left = 1

    def get_next(self) -> dict[str, np.ndarray] | None:
        self.left -= 1
        return {"input": np.random.default_rng(1).random((2, 3, 8, 8), np.float32)} if self.left >= 0 else None


@pytest.fixture(scope="module")
def by_onnxruntime(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The network as ONNX Runtime's own quantiser makes it: symmetric, weights a scale a channel and as pairs."""
    folder = tmp_path_factory.mktemp("quantised")
    (folder / "model.onnx").write_bytes(MODEL)
    options = {"ActivationSymmetric": True, "WeightSymmetric": True, "AddQDQPairToWeight": True, "QuantizeBias": False}
    how = {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8, "per_channel": True}
    how |= {"nodes_to_quantize": [name for name in BY_NAME if name.endswith("/Conv")], "extra_options": options}
    quantize_static(folder / "model.onnx", folder / "q.onnx", _Images(), quant_format=QuantFormat.QDQ, **how)
    return (folder / "q.onnx").read_bytes()


def test_layers_and_skip_branches_are_those_of_the_graph() -> None:
    model = read_model(MODEL)
    axes = {BY_NAME[name]: axis for name, axis in weighted_layers(model).items()}
    assert axes == {**{f"conv{n}": 0 for n in range(8)}, "matmul": 1, "gemm0": 0, "output": 1}
    skips = {BY_NAME[name]: right.values for name, right in skip_branches(model).items() if right.values != ([],)}
    assert skips == {"add0": ([1],), "add1": ([0], [1]), "add2": ([0],)} and {*LEFT_IN_FLOAT} < {*axes}


@pytest.mark.parametrize(("model", "shape"), [(MODEL, (2, 3, 8, 8)), (explicit_network(3), (2, 3, 224, 224))])
def test_both_networks_run(model: bytes, shape: tuple[int, ...]) -> None:
    images = np.random.default_rng(1).random(shape, np.float32)
    assert np.isfinite(onnxruntime.InferenceSession(model).run(None, {"input": images})[0]).all()


def test_a_model_that_onnx_runtime_quantised_is_read_as_the_original_with_pairs(by_onnxruntime: bytes) -> None:
    original, found = read_model(MODEL), read_model(by_onnxruntime)
    weights = [(name, 1) for name in weighted_layers(original) if name.endswith("/Conv")]
    agree(found["pairs"], pairs_at(original, weights, {}), "ONNX Runtime's pairs at weights", "", rtol=1e-4)


def by_kernel(values: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    rows = np.moveaxis(values, axis, 0)
    scales = np.array([max(abs(row.min()), abs(row.max())) / 127 or 1 for row in rows], np.float32)
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> one (float{list(values.shape)} x, float[{len(scales)}] s, '
        f"int8[{len(scales)}] z) => (int8{list(values.shape)} q) {{ q = QuantizeLinear<axis = {axis}>(x, s, z) }}"
    )
    given = {"x": values, "s": scales, "z": np.zeros(len(scales), np.int8)}
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, given)[0], scales


@pytest.mark.parametrize("point", [pairs.scales, pairs.codes, pairs.silent])
def test_weights_by_onnx_runtime_s_kernel_are_right(point: Callable[[Case], str]) -> None:
    assert point(case_of(quantize_weights=by_kernel))
