"""The probe models of step 1: what they say of themselves, and that they behave as the checks need."""

import numpy as np

from helpers.checks.probes.onnx_files import ROUNDED, onnx_facts, spoiled_onnx
from helpers.tools.outputs import onnx_outputs
from helpers.toys.networks import EDGE, tiny_onnx

IMAGES = np.random.default_rng(0).standard_normal((2, 3, EDGE, EDGE), dtype=np.float32)


def test_facts_name_the_ends_their_shapes_and_the_opset() -> None:
    facts = onnx_facts(tiny_onnx(1))
    assert facts["inputs"] == {"input": {"shape": ["batch", 3, EDGE, EDGE], "dtype": "FLOAT"}}
    assert facts["outputs"] == {"output": {"shape": ["batch", 10], "dtype": "FLOAT"}}
    assert (facts["opset"], facts["foldable"]) == (17, [])


def test_each_fault_shows_in_the_outputs_and_another_rounding_hardly() -> None:
    right, found = (
        onnx_outputs(tiny_onnx(1), IMAGES),
        {fault: onnx_outputs(model, IMAGES) for fault, model in spoiled_onnx(1).items()},
    )
    errors = {fault: float(np.abs(outputs - right).max()) for fault, outputs in found.items()}
    assert 0 < errors.pop(ROUNDED) < 1e-4 and min(errors.values()) > 0.02
