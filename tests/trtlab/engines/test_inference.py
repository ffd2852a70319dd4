"""The inference class on real engines of this machine, and engine files that are none."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.engine.backend import cuda
from helpers.tools.files import read_json, write_json
from tests.trtlab.tiny_models import SIZE, tiny_onnx
from trtcpu.errors import EngineError, InputError, LabError
from trtlab.building.build import BuildOptions, build_engine
from trtlab.engines.inference import InferenceEngine, deserialize


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engines")
    options = BuildOptions(min_batch=2, opt_batch=4, max_batch=6)
    build_engine(tiny_onnx(folder), folder / "dynamic.engine", options)
    build_engine(tiny_onnx(folder, dynamic=False, batch=3), folder / "fixed.engine", BuildOptions())
    return folder


def _images(number: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((number, 3, SIZE, SIZE), dtype=np.float32)


def _reference(folder: Path, images: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(tiny_onnx(folder)), providers=["CPUExecutionProvider"])
    return session.run(None, {"input": images})[0]


def test_an_engine_says_what_it_takes_and_gives(folder: Path) -> None:
    with InferenceEngine(folder / "dynamic.engine") as engine:
        assert (engine.name, engine.input_name, engine.output_name) == ("dynamic", "input", "output")
        assert (engine.sample_shape, engine.output_shape) == ((3, SIZE, SIZE), (10,))
        assert (engine.min_batch, engine.opt_batch, engine.max_batch) == (2, 4, 6)
        assert engine.size_bytes == (folder / "dynamic.engine").stat().st_size
        assert engine.device_memory_bytes >= 0
    with InferenceEngine(folder / "fixed.engine") as engine:
        assert (engine.min_batch, engine.opt_batch, engine.max_batch) == (3, 3, 3)


@pytest.mark.parametrize("number", [2, 3, 6, 2])
def test_every_batch_of_the_profile_gives_what_onnx_runtime_gives(folder: Path, number: int) -> None:
    with InferenceEngine(folder / "dynamic.engine") as engine:
        for seed in range(2):
            images = _images(number, seed)
            np.testing.assert_allclose(engine.infer(images), _reference(folder, images), rtol=1e-4, atol=1e-5)


def test_outputs_are_a_copy_that_the_next_batch_leaves_alone(folder: Path) -> None:
    with InferenceEngine(folder / "dynamic.engine") as engine:
        first = engine.infer(_images(2, 0))
        kept = first.copy()
        engine.infer(_images(2, 1))
        np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("number", [0, 1, 6, 7, 13])
def test_any_number_of_images_can_be_predicted(folder: Path, number: int) -> None:
    with InferenceEngine(folder / "dynamic.engine") as engine:
        images = _images(number)
        found = engine.predict(images)
    assert found.shape == (number, 10)
    if number:
        np.testing.assert_allclose(found, _reference(folder, images), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("images", [_images(3).astype(np.float64), _images(3)[::-1], _images(6)[::2]])
def test_other_types_and_strides_are_converted(folder: Path, images: np.ndarray) -> None:
    with InferenceEngine(folder / "fixed.engine") as engine:
        expected = _reference(folder, np.ascontiguousarray(images, np.float32))
        np.testing.assert_allclose(engine.infer(images), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("number", [1, 7])
def test_a_batch_outside_the_profile_is_an_error_with_the_profile(folder: Path, number: int) -> None:
    with InferenceEngine(folder / "dynamic.engine") as engine:
        for call in (lambda: engine.infer(_images(number)), lambda: engine.bind(number)):
            with pytest.raises(InputError, match=rf"batch of {number} is outside .*dynamic \(2 to 6\)"):
                call()


def test_a_wrong_image_shape_is_an_error_with_both_shapes(folder: Path) -> None:
    with InferenceEngine(folder / "dynamic.engine") as engine:
        with pytest.raises(InputError, match=r"\[N, 3, 32, 32\], not \[2, 3, 16, 32\]"):
            engine.infer(np.zeros((2, 3, 16, 32), np.float32))
        with pytest.raises(InputError, match="was given data for a batch of 3"):
            engine.bind(2, _images(3))


def test_a_bound_batch_can_be_timed(folder: Path) -> None:
    with InferenceEngine(folder / "dynamic.engine") as engine:
        engine.bind(4)
        assert all(0 < engine.execute_ms() < 10_000 for _ in range(3))
        engine.enqueue()
        engine.synchronize()


def test_an_engine_too_large_for_the_memory_says_how_much_it_needs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise MemoryError

    monkeypatch.setattr(cuda, "mem_alloc", full)
    with pytest.raises(EngineError, match=r"input of fixed needs 0\.0 GB; build with a smaller maximum"):
        InferenceEngine(folder / "fixed.engine")


def test_closing_twice_is_harmless(folder: Path) -> None:
    engine = InferenceEngine((folder / "fixed.engine").read_bytes())
    engine.close()
    engine.close()


@pytest.mark.parametrize("content, said", [(b"", "is empty"), (b"x" * 500, "is no engine"), (b"x", "is no engine")])
def test_a_file_that_is_no_engine_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "e.engine").write_bytes(content)
    with pytest.raises(InputError, match=rf"e\.engine.*{said}"):
        InferenceEngine(tmp_path / "e.engine")


def test_a_missing_engine_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the engine .*trtlab build"):
        InferenceEngine(tmp_path / "e.engine")


@pytest.mark.parametrize("share", [0.01, 0.5, 0.999])
def test_a_truncated_engine_is_named(folder: Path, tmp_path: Path, share: float) -> None:
    data = (folder / "fixed.engine").read_bytes()
    (tmp_path / "e.engine").write_bytes(data[: int(share * len(data))])
    with pytest.raises(InputError, match=r"e\.engine"):
        InferenceEngine(tmp_path / "e.engine")


def test_an_engine_that_cannot_be_loaded_says_where_it_was_built(folder: Path, tmp_path: Path) -> None:
    record = read_json(folder / "fixed.engine.json")
    record["engine"]["device"] = "TensorRT 10.16.1, NVIDIA H200"
    (tmp_path / "e.engine").write_bytes(b"ftrt" + b"\0" * 100)
    write_json(tmp_path / "e.engine.json", record)
    with pytest.raises(InputError, match=r"it was built on: TensorRT 10\.16\.1, NVIDIA H200; build it again here"):
        InferenceEngine(tmp_path / "e.engine")


@settings(max_examples=60)
@given(data=st.data())
def test_no_damage_to_an_engine_file_crashes_the_reader(folder: Path, data: st.DataObject) -> None:
    plan = bytearray((folder / "fixed.engine").read_bytes())
    if data.draw(st.booleans()):
        plan = plan[: data.draw(st.integers(1, len(plan) - 1))]
    for position in data.draw(st.sets(st.integers(0, len(plan) - 1), min_size=1, max_size=4)):
        plan[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(LabError):
        deserialize(bytes(plan))


@settings(max_examples=60)
@given(content=st.binary(max_size=400))
def test_no_bytes_crash_the_engine_reader(content: bytes) -> None:
    with pytest.raises(LabError):
        deserialize(content)
