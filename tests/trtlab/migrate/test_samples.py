"""Public kinds of code for TensorRT 7, 8 and 10: what is found in them, and that what is rewritten runs."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from helpers.engine.backend import trt
from helpers.tools.outputs import onnx_outputs
from tests.trtlab.migrate import running
from tests.trtlab.migrate.marks import SAMPLES, expected
from tests.trtlab.tiny_models import SIZE, tiny_onnx
from trtlab.migrate.findings import changes_until
from trtlab.migrate.migration import migrate
from trtlab.migrate.uses import ADVICE

ROOT = Path(__file__).resolve().parents[3]


def found(path: Path, to: int) -> Counter[tuple[int, str, bool]]:
    return Counter((row.place.line, row.finding.name, row.rewritten) for row in migrate(path, to).rows)


def marked(path: Path, to: int) -> Counter[tuple[int, str, bool]]:
    """Return what a sample's marks expect of a migration to this version."""
    names = changes_until(to).keys() | ADVICE.keys()
    return Counter({use: number for use, number in expected(path, to).items() if use[1] in names})


def migrated(name: str, to: int, folder: Path) -> Path:
    """Write a sample as it is after the migration into `folder`."""
    sample = next(path for path in SAMPLES if path.stem == name)
    path = folder / sample.name
    path.write_bytes(migrate(sample, to).content)
    return path


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("to", [10, 11])
def test_every_gone_name_of_a_sample_is_found_in_its_line(path: Path, to: int) -> None:
    assert found(path, to) == marked(path, to)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("to", [10, 11])
def test_after_the_migration_only_what_was_left_to_people_is_found(path: Path, to: int, tmp_path: Path) -> None:
    left = Counter(name for _, name, rewritten in marked(path, to).elements() if not rewritten)
    again = found(migrated(path.stem, to, tmp_path), to)
    assert Counter(name for _, name, _ in again.elements()) == left and not any(done for *_, done in again)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, one of a fixed batch, and images."""
    folder = tmp_path_factory.mktemp("migrated")
    shutil.copy(tiny_onnx(folder), folder / "model.onnx")
    shutil.copy(tiny_onnx(folder, dynamic=False), folder / "fixed.onnx")
    np.save(folder / "images.npy", np.random.default_rng(0).standard_normal((3, 3, SIZE, SIZE), dtype=np.float32))
    return folder


@pytest.mark.parametrize("to", [10, 11])
def test_migrated_samples_answer_as_onnx_runtime_does(to: int, work: Path) -> None:
    for name in ("trt7_infer", "trt8_build", "trt8_infer"):
        migrated(name, to, work)
    environment = {**os.environ, "TRT_LAB_ENGINE": "cpu", "TRT_LAB_API": str(to), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.trtlab.migrate.running", work]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    with np.load(work / "outputs.npz") as outputs:
        images = np.load(work / "images.npy")
        right = onnx_outputs((work / "model.onnx").read_bytes(), images)
        assert str(outputs["version"]).startswith(f"{to}.")
        np.testing.assert_allclose(outputs["trt8_infer"], right, atol=1e-4)
        np.testing.assert_allclose(outputs["trt7_infer"], right[:1], atol=1e-4)


@pytest.mark.skipif(trt.__version__.startswith("11"), reason="precision flags are of TensorRT 10")
def test_a_migrated_builder_of_tensorrt_7_builds_what_it_was_told(work: Path) -> None:
    sample = running.load(migrated("trt7_build", 10, work))
    with pytest.warns(DeprecationWarning, match="Context managers"):
        engine = sample.engine_of(work / "fixed.onnx", work / "half.plan", half=True)
    assert (work / "half.plan").stat().st_size > 0
    with pytest.warns(DeprecationWarning, match="Context managers"):
        again = sample.engine_of(work / "fixed.onnx", work / "half.plan")
    assert engine.num_io_tensors == again.num_io_tensors == 2


def test_what_cannot_be_built_is_none_as_before(work: Path) -> None:
    sample = running.load(migrated("trt8_build", 10, work))
    (work / "empty.onnx").write_bytes(b"no model")
    builder = sample.EngineBuilder()
    assert builder.build(work / "empty.onnx") is None
    builder.largest = 0  # an empty profile
    assert builder.build(work / "model.onnx") is None
