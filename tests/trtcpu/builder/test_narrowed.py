"""Types that are read as others: DOUBLE, quantised UINT8, and INT64 beyond 32 bits."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.others.engine import Log
from tests.trtcpu.graphs import FLOAT, INT64, model, results
from trtcpu import tensorrt as trt
from trtcpu.errors import EngineError

DOUBLE = TensorProto.DOUBLE


def warned(data: bytes) -> list[str]:
    """Return what the parser warns of."""

    class Warned(Log):
        def log(self, severity: trt.ILogger.Severity, msg: str) -> None:
            if severity == trt.ILogger.WARNING:
                self.errors.append(msg)

    log = Warned()
    network = trt.Builder(log).create_network(0)
    assert trt.OnnxParser(network, log).parse(data)
    return log.errors


def test_double_inputs_weights_constants_and_casts_are_float() -> None:
    nodes = [
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array([1e300, 2.0]))),
        helper.make_node("Add", ["x", "w"], ["a"]),
        helper.make_node("Min", ["a", "c"], ["m"]),
        helper.make_node("Cast", ["m"], ["y"], to=DOUBLE),
    ]
    data = model(nodes, {"x": (DOUBLE, [2])}, {"y": (DOUBLE, [2])}, {"w": np.array([0.5, 0.5])})
    found = results(data, x=np.array([1.0, 9.0]))["y"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [1.5, 2.0])
    assert any("DOUBLE" in text for text in warned(data))


@pytest.mark.parametrize("zero", [{}, {"zero": np.uint8(0)}], ids=["left out", "given"])
def test_uint8_codes_become_int8(zero: dict[str, np.uint8]) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", *zero], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", *zero], ["y"]),
    ]
    data = model(nodes, {"x": (FLOAT, [4])}, {"y": (FLOAT, [4])}, {"scale": np.float32(0.05), **zero})
    np.testing.assert_allclose(results(data, x=np.float32([-1, 1, 9, -9]))["y"], [-1, 1, 6.35, -6.4], atol=1e-6)
    assert any("UINT8" in text for text in warned(data)) == bool(zero)


def test_integers_beyond_32_bits_are_an_error_at_the_input_and_a_warning_as_a_constant() -> None:
    node = helper.make_node("Add", ["x", "one"], ["y"])
    data = model([node], {"x": (INT64, [2])}, {"y": (INT64, [2])}, {"one": np.array([1, 1])})
    np.testing.assert_array_equal(results(data, x=np.array([1, 2**31 - 2]))["y"], [2, 2**31 - 1])
    with pytest.raises(EngineError, match="x holds 1099511627776"):
        results(data, x=np.array([1, 2**40]))
    large = model([node], {"x": (INT64, [2])}, {"y": (INT64, [2])}, {"one": np.array([1, 2**40])})
    assert warned(data) == [] and any(text.startswith("one holds") for text in warned(large))
