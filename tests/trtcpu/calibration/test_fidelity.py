"""Scales and logits against what TensorRT 8.6 wrote and computed on an NVIDIA H200."""

import dataclasses
import json
from unittest import mock

import numpy as np
import pytest

from helpers.engine.backend import ENGINE
from tests.benchmarks import fidelity
from tests.benchmarks.fidelity import RECORDING, recorded_images, recorded_network, weights_sha256
from trtcpu import _openvino
from trtcpu.calibration import session
from trtcpu.calibration.histogram import BINS, TensorStatistics
from trtcpu.calibration_cache import parse_cache

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(ENGINE == "tensorrt", reason="compares the CPU engine with TensorRT"),
]

KINDS = sorted(fidelity.CACHE_FILES)
TENSORS = {"minmax": 127, "entropy": 57, "entropy2": 127}
# How much more than the best range's divergence TensorRT's may have on our histogram, as a share: rounding's part.
NEAR_TIE = 1e-3
# TensorRT's own relative errors on these images; ours may be this factor of them.
ERROR_FACTOR = 1.5 if _openvino.saturates_int8() else 1.2  # weights of seven bits there
# Errors of 3 to 10 % may turn images whose two greatest logits are closer than this share of the greatest.
CLEAR_MARGIN = 0.1


@dataclasses.dataclass(frozen=True)
class Calibrated:
    """What a calibration left."""

    kind: str
    cache: bytes
    engine: bytes
    statistics: TensorStatistics

    @property
    def recorded(self) -> dict[str, float]:
        return parse_cache((RECORDING / fidelity.CACHE_FILES[self.kind]).read_bytes()).scales


@pytest.fixture(scope="module", params=KINDS)
def calibrated(request: pytest.FixtureRequest) -> Calibrated:
    """Calibrated with the recorded images as the recording was."""
    calibrator = fidelity.make_calibrator(request.param, recorded_images(), batch=8)
    with mock.patch.object(session, "scales_from", wraps=session.scales_from) as scales_from:
        engine = fidelity.calibrated_engine(recorded_network(), calibrator, (8, 3, 224, 224))
    return Calibrated(request.param, calibrator.written, bytes(engine), scales_from.call_args.args[0])


def divergence(counts: np.ndarray, bins: int) -> float:
    """Return KL(P‖Q) of keeping `bins` bins, summed term by term."""
    counts = counts.astype(np.float64)
    counts[0] = counts[1]
    p, q = counts[:bins].copy(), np.zeros(bins)
    p[-1] += counts[bins:].sum()
    groups, filled = np.arange(bins) * 128 // bins, counts[:bins] > 0
    for group in range(128):
        members = groups == group
        q[members & filled] = counts[:bins][members].sum() / max(1, (members & filled).sum())
    p, q = p[filled] / p.sum(), q[filled] / q.sum()
    return float((p * np.log(p / q)).sum())


def gap(statistics: TensorStatistics, name: str, ours: float, theirs: float) -> float:
    """Return by how much TensorRT's range loses against ours, relative, on our histogram."""
    width = statistics.range(name) / BINS
    kept = [round(scale * 127 / width - 0.5) for scale in (ours, theirs)]
    least, other = (divergence(statistics.counts[name], bins) for bins in kept)
    return other / least - 1


def test_the_recording_is_of_the_weights_that_are_shipped() -> None:
    recorded = json.loads((RECORDING / "record.json").read_text())
    assert recorded.get("weights") == weights_sha256(), "record again on a GPU: make gpu-test"


def test_scales_are_tensorrts_except_near_ties(calibrated: Calibrated) -> None:
    ours, theirs = parse_cache(calibrated.cache).scales, calibrated.recorded
    found = fidelity.compare(ours, theirs)
    assert found.tensors == TENSORS[calibrated.kind]
    assert len(found.different) <= fidelity.NEAR_TIES[calibrated.kind], found.different
    for name in found.different:
        assert 0 <= gap(calibrated.statistics, name, ours[name], theirs[name]) <= NEAR_TIE, name


def test_tensors_are_written_in_tensorrts_order(calibrated: Calibrated) -> None:
    assert list(parse_cache(calibrated.cache).scales) == list(calibrated.recorded)


def test_int8_logits_are_as_close_to_fp32_as_tensorrts(calibrated: Calibrated) -> None:
    exact = np.load(RECORDING / "outputs_fp32.npy")
    theirs = np.load(RECORDING / f"outputs_{fidelity.CACHE_FILES[calibrated.kind].removesuffix('.cache')}.npy")
    ours = fidelity.logits(calibrated.engine, recorded_images(), batch=8)
    second, first = np.sort(exact, axis=1)[:, -2:].T
    clear = first - second > CLEAR_MARGIN * np.abs(exact).max(1)
    assert clear.mean() > 0.9 and (ours.argmax(1) == exact.argmax(1))[clear].all()
    error, reference = (np.linalg.norm(x - exact) / np.linalg.norm(exact) for x in (ours, theirs))
    assert error <= ERROR_FACTOR * reference


def test_tensorrts_calibrators_contradict_each_other_in_one_scale_of_the_labs_model() -> None:
    """So no algorithm gives all of its scales from the same activations."""
    entropy, entropy2 = (
        parse_cache((RECORDING / fidelity.CACHE_FILES[kind]).read_bytes()).scales for kind in ("entropy", "entropy2")
    )
    differing = {name for name, scale in entropy.items() if abs(scale / entropy2[name] - 1) > fidelity.TOLERANCE}
    # Max pooling takes its input's scale with the second calibrator only, by a rule.
    assert differing == {"/maxpool/MaxPool_output_0", "/layer2/layer2.1/relu/Relu_output_0"}


def test_tensorrts_own_cache_is_accepted_for_the_same_network() -> None:
    recorded = (RECORDING / "entropy2.cache").read_bytes()
    calibrator = fidelity.make_calibrator("entropy2", recorded_images(), 8, cache=recorded)
    assert fidelity.calibrated_engine(recorded_network(), calibrator, (8, 3, 224, 224)) is not None
    assert calibrator.written is None
