"""The probe models of step 1: what they say of themselves, and that they behave as the checks need."""

import numpy as np
import onnxruntime
import pytest

from helpers.checks.probes.onnx_files import (
    ROUNDED,
    nodes_of,
    onnx_facts,
    spoiled_onnx,
    unrepeatable_onnx,
)
from helpers.toys.networks import EDGE, tiny_onnx

IMAGES = np.random.default_rng(0).standard_normal((2, 3, EDGE, EDGE), dtype=np.float32)


def _run(model: bytes, optimised: bool = True) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"input": IMAGES})[0]


def test_facts_name_the_ends_their_shapes_and_the_opset() -> None:
    facts = onnx_facts(tiny_onnx(1))
    assert facts["inputs"] == {"input": {"shape": ["batch", 3, EDGE, EDGE], "dtype": "FLOAT"}}
    assert facts["outputs"] == {"output": {"shape": ["batch", 10], "dtype": "FLOAT"}}
    assert (facts["opset"], facts["foldable"]) == (17, [])


@pytest.mark.parametrize("optimised", [True, False])
def test_an_unrepeatable_model_never_gives_the_same_twice(optimised: bool) -> None:
    model = unrepeatable_onnx(1)
    assert nodes_of(model, "Dropout") == ["dropout"]
    assert np.abs(_run(model, optimised) - _run(model, optimised)).max() > 0.1


def test_each_fault_shows_in_the_outputs_and_another_rounding_hardly() -> None:
    right, found = _run(tiny_onnx(1)), {fault: _run(model) for fault, model in spoiled_onnx(1).items()}
    errors = {fault: float(np.abs(outputs - right).max()) for fault, outputs in found.items()}
    assert 0 < errors.pop(ROUNDED) < 1e-4 and min(errors.values()) > 0.02
