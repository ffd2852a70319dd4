"""Step 4's trusted side on small answers of its own; the bank holds it to whole submissions."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.toys.networks import EDGE, tiny_onnx
from solutions.checks import s04_int8
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


@pytest.mark.parametrize(
    ("own", "guessed", "kept"), [(0.02, 0.02, True), (0.11, 0.13, True), (0.6, 0.7, True), (0.02, 0.8, False)]
)
def test_an_int8_engine_must_be_as_exact_on_what_it_is_timed_on(
    monkeypatch: pytest.MonkeyPatch, own: float, guessed: float, kept: bool
) -> None:
    """Else it could know those images by their noise, and give a quick guess that is right for most of them."""
    monkeypatch.setattr(s04_int8, "held_out_images", lambda: np.zeros((4, 3, 8, 8), np.float32))
    monkeypatch.setattr(s04_int8, "_error_and_agreement", lambda *_: (own, 1.0))
    monkeypatch.setattr(s04_int8, "reference", lambda: SimpleNamespace(path=Path))
    expected = np.eye(10, dtype=np.float32)
    with nullcontext() if kept else pytest.raises(Missed, match="on the images that it was timed on"):
        s04_int8._timed_on(Case(None, 7), b"").judge((1 - guessed) * expected, expected)
