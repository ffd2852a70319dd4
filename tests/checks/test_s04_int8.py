"""Step 4's trusted side on small answers of its own; the bank holds it to whole submissions."""

import numpy as np
import onnx
import pytest

from helpers.checks.missed import Missed
from helpers.toys.networks import EDGE, tiny_onnx
from solutions.checks.trusted.same_tensors import scale_differences


def _renamed(model: bytes) -> bytes:
    """Return the network with another name for each tensor between its ends, as another exporter would give them."""
    network = onnx.load_from_string(model)
    for names in (names for node in network.graph.node for names in (node.input, node.output)):
        inner = [name not in ("input", "output") and name[0] not in "wb" and name[:3] != "fc." for name in names]
        names[:] = [f"val_{name}" if rename else name for name, rename in zip(names, inner, strict=True)]
    return network.SerializeToString()


def test_tensors_are_compared_by_what_they_are_not_by_their_names() -> None:
    model, images = tiny_onnx(5), np.random.default_rng(0).standard_normal((1, 3, EDGE, EDGE), dtype=np.float32)
    names = ("relu0", "relu1", "conv2", "pooled", "output")
    expected = {"input": 0.1, **{name: 0.01 * (index + 1) for index, name in enumerate(names)}}
    found = {name if name in ("input", "output") else f"val_{name}": 2 * scale for name, scale in expected.items()}
    differences = scale_differences((found, _renamed(model)), (expected, model), images)
    assert len(differences) == len(expected) and np.allclose(differences, np.log(2))
    with pytest.raises(Missed, match="of 6 of the network's tensors"):
        scale_differences(({"input": 0.1}, _renamed(model)), (expected, model), images)
