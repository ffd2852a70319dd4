"""Step 4's claims on small answers of their own; the bank holds them to whole submissions."""

import io
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from PIL import Image

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s04_int8.dataset import TOLERANCE
from helpers.checks.probes.image_folders import noise_image
from helpers.checks.probes.student import Student
from helpers.toys.networks import EDGE, tiny_onnx
from solutions.checks import s04_int8
from solutions.checks.core.claim import claims_of
from solutions.checks.core.decide import decide
from solutions.checks.s04_int8 import references, trusted_scales
from solutions.checks.trusted.same_tensors import scale_differences


def results(cell: str, **namespace: object) -> dict[str, str]:
    """Return each claim's status for a submission that defines `namespace`."""
    case = Case(Student.in_process(namespace), 7)
    return {claim.name: decide(claim, case).status for claim in claims_of(cell)}


@pytest.mark.parametrize("size", [(300, 400), (333, 257), (641, 320)])
def test_the_reference_preprocessing_is_torchvisions(size):
    transforms = pytest.importorskip("torchvision.transforms")
    png = noise_image(3, *size)
    steps = [transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor()]
    normalise = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    expected = transforms.Compose([*steps, normalise])(Image.open(io.BytesIO(png))).numpy()
    assert min(np.abs(found - expected).max() for found in references(png)) < TOLERANCE


def test_nothing_written_earns_nothing():
    for cell in ("calibration_dataset", "calibrator", "int8_engine"):
        assert set(results(cell).values()) == {"lost"}


def test_a_data_set_that_raises_loses_its_claims_without_failing_the_check():
    class CalibrationDataset:
        def __init__(self, data_dir, num_samples):
            raise RuntimeError("no")

    assert set(results("calibration_dataset", CalibrationDataset=CalibrationDataset).values()) == {"lost"}


def test_trusted_scales_name_tensors_of_the_small_network():
    scales = trusted_scales(tiny_onnx(5), 5, 8, 1.0)
    assert {"input", "relu0", "conv3"} <= set(scales)
    assert all(scale > 0 for scale in scales.values())


def renamed(model: bytes) -> bytes:
    """Return the network with another name for each tensor between its ends, as another exporter would give them."""
    network = onnx.load_from_string(model)
    for node in network.graph.node:
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                if name not in ("input", "output") and name[0] not in "wb" and not name.startswith("fc."):
                    names[index] = f"val_{name}"
    return network.SerializeToString()


def test_tensors_are_compared_by_what_they_are_not_by_their_names():
    model, images = tiny_onnx(5), np.random.default_rng(0).standard_normal((1, 3, EDGE, EDGE), dtype=np.float32)
    names = ("relu0", "relu1", "conv2", "pooled", "output")
    expected = {"input": 0.1, **{name: 0.01 * (index + 1) for index, name in enumerate(names)}}
    found = {name if name in ("input", "output") else f"val_{name}": 2 * scale for name, scale in expected.items()}
    differences = scale_differences((found, renamed(model)), (expected, model), images)
    assert len(differences) == len(expected) and np.allclose(differences, np.log(2))
    with pytest.raises(Missed, match="of 6 of the network's tensors"):
        scale_differences(({"input": 0.1}, renamed(model)), (expected, model), images)


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
