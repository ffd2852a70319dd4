"""The CPU engine's calibration against real TensorRT, on the machine that has both.

Real TensorRT calibrates and builds; the CPU engine reproduces its scales in a process of its own. What TensorRT wrote
is kept in results/fidelity, as tests/fixtures/fidelity_lab holds it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.engine.backend import DEVICE, ENGINE, trt
from helpers.tools.files import write_json
from tests.benchmarks import fidelity
from trtcpu.calibration_cache import parse_cache

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(ENGINE != "tensorrt", reason="needs real TensorRT on an NVIDIA GPU"),
]
RECORD = Path("results/fidelity")
ROOT = Path(__file__).resolve().parents[2]
BATCH = 8


@pytest.fixture(scope="module")
def recorded() -> Path:
    """Calibrate the lab's ResNet-50 with each calibrator on real TensorRT; keep caches, logits and versions."""
    network, images = fidelity.recorded_network(), fidelity.recorded_images()
    RECORD.mkdir(parents=True, exist_ok=True)
    np.save(RECORD / "outputs_fp32.npy", fidelity.pytorch_logits(images))
    for kind, file in fidelity.CACHE_FILES.items():
        calibrator = fidelity.make_calibrator(kind, images, BATCH)
        with fidelity.without_long_builds(1):
            plan = fidelity.calibrated_engine(network, calibrator, (BATCH, *images.shape[1:]))
        (RECORD / file).write_bytes(calibrator.written)
        np.save(RECORD / f"outputs_{Path(file).stem}.npy", fidelity.logits(plan, images, BATCH))
    about = {"device": DEVICE, "version": trt.__version__, "images": len(images), "weights": fidelity.weights_sha256()}
    write_json(RECORD / "record.json", about)
    return RECORD


@pytest.mark.parametrize("kind", fidelity.CACHE_FILES)
def test_tensorrt_gives_the_scales_that_were_recorded_before(recorded: Path, kind: str) -> None:
    now, before = (
        parse_cache((folder / fidelity.CACHE_FILES[kind]).read_bytes()).scales
        for folder in (recorded, fidelity.RECORDING)
    )
    found = fidelity.compare(now, before)
    assert found.share >= 0.97, found.different


def test_tensorrts_int8_engines_keep_the_labs_top_1(recorded: Path) -> None:
    reference = np.load(recorded / "outputs_fp32.npy").argmax(1)
    for file in fidelity.CACHE_FILES.values():
        found = np.load(recorded / f"outputs_{Path(file).stem}.npy").argmax(1)
        assert (found == reference).mean() >= 0.9, file


def test_the_cpu_engine_reproduces_the_scales_of_the_labs_model(recorded: Path) -> None:
    pytest.importorskip("openvino", reason="the CPU engine's OpenVINO is not installed beside TensorRT here")
    script = (
        "import json; from pathlib import Path; from tests.benchmarks import fidelity as f;"
        f"found = f.scales_equal(f.recorded_network(), f.recorded_images(), Path({str(recorded.resolve())!r}));"
        "print(json.dumps({kind: [e.share, e.different] for kind, e in found.items()}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "TRT_LAB_ENGINE": "cpu"},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    shares = json.loads(done.stdout.strip().splitlines()[-1])
    print({kind: share for kind, (share, _) in shares.items()})
    different = {kind: len(names) for kind, (_, names) in shares.items()}
    assert all(different[kind] <= allowed for kind, allowed in fidelity.NEAR_TIES.items()), shares
