"""The claims of step 4 on small answers of their own; the bank holds them to whole submissions."""

import numpy as np
import pytest

from helpers.points.case import Case
from helpers.probes.image_folders import noise_png
from helpers.probes.student import Student
from solutions.checks.calibration_claims import TOLERANCE, references
from solutions.checks.core.claim import claims_of
from solutions.checks.core.decide import decide
from solutions.checks.int8_claims import trusted_scales
from solutions.checks.operations.calibration import print_of

torchvision = pytest.importorskip("torchvision")


def results(cell: str, **namespace: object) -> dict[str, str]:
    """Return each claim's status for a submission that defines `namespace`."""
    student = Student.in_process(namespace)
    case = Case(student, 7)
    return {claim.name: decide(claim, case).status for claim in claims_of(cell)}


@pytest.mark.parametrize("size", [(300, 400), (333, 257), (641, 320)])
def test_the_reference_preprocessing_is_torchvisions(size):
    import io

    from PIL import Image
    from torchvision import transforms

    png = noise_png(3, *size)
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


def test_points_of_the_step_add_up():
    cells = ("calibration_dataset", "calibrator", "int8_engine", "int8_calibration")
    assert sum(claim.points for cell in cells for claim in claims_of(cell)) == 13
    assert sum(claim.points for claim in claims_of("int8_speed")) == 6


def test_fingerprints_tell_images_apart():
    images = np.random.default_rng(0).standard_normal((2, 3, 224, 224))
    first, second = (print_of(image) for image in images)
    assert first.shape == (192,)
    assert np.abs(first - second).max() > 0.01


def test_trusted_scales_name_every_layer_of_the_small_network():
    from helpers.probes.networks import tiny_onnx

    scales = trusted_scales(tiny_onnx(5), 5, 1.0)
    assert {"input", "relu0", "conv3"} <= set(scales)
    assert all(scale > 0 for scale in scales.values())
