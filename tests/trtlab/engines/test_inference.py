"""The inference class on real engines of this machine, and engine files that are none."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from helpers.tools.files import write_json
from tests.trtlab.tiny_models import SIZE, tiny_onnx
from trtcpu.errors import InputError
from trtlab.building.build import BuildOptions, build_engine
from trtlab.engines.inference import InferenceEngine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engines")
    options = BuildOptions(min_batch=2, opt_batch=4, max_batch=6)
    build_engine(tiny_onnx(folder), folder / "dynamic.engine", options)
    build_engine(tiny_onnx(folder, dynamic=False, batch=3), folder / "fixed.engine", BuildOptions())
    return folder


def _images(number: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((number, 3, SIZE, SIZE), dtype=np.float32)


@pytest.mark.parametrize("name, batches", [("dynamic", (2, 4, 6)), ("fixed", (3, 3, 3))])
def test_an_engine_says_what_it_takes_and_gives_and_closes_twice(folder: Path, name: str, batches: tuple) -> None:
    file = folder / f"{name}.engine"
    with InferenceEngine(file) as engine:
        assert (engine.name, engine.input_name, engine.output_name) == (name, "input", "output")
        assert (engine.sample_shape, engine.output_shape) == ((3, SIZE, SIZE), (10,))
        assert (engine.min_batch, engine.opt_batch, engine.max_batch) == batches
        assert engine.size_bytes == file.stat().st_size
        engine.close()


@pytest.mark.parametrize("name", ["dynamic", "fixed"])
@pytest.mark.parametrize(
    "images",
    [*map(_images, (0, 1, 2, 3, 6, 7, 13)), _images(3).astype(np.float64), _images(3)[::-1], _images(6)[::2]],
)
def test_any_images_give_what_onnx_runtime_gives_in_memory_of_their_own(
    folder: Path, name: str, images: np.ndarray
) -> None:
    session = onnxruntime.InferenceSession(str(tiny_onnx(folder)), providers=["CPUExecutionProvider"])
    expected = session.run(None, {"input": np.ascontiguousarray(images, np.float32)})[0]
    with InferenceEngine((folder / f"{name}.engine").read_bytes()) as engine:
        found = [engine.predict(images)]
        if engine.min_batch <= len(images) <= engine.max_batch:
            found.append(engine.infer(images))
        engine.infer(_images(3) + 1)  # which leaves what was found alone
    for outputs in found:
        np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "shape, said",
    [
        ((1, 3, SIZE, SIZE), r"batch of 1 is outside .*dynamic \(2 to 6\)"),
        ((7, 3, SIZE, SIZE), r"batch of 7 is outside .*dynamic \(2 to 6\)"),
        ((2, 3, 16, 32), r"dynamic takes input float32 \[2–6, 3, 32, 32\], not \[2, 3, 16, 32\]"),
        ((), r"takes input .*, not \[\]"),
    ],
)
def test_what_the_profile_does_not_allow_is_an_error_with_the_profile(folder: Path, shape: tuple, said: str) -> None:
    with InferenceEngine(folder / "dynamic.engine") as engine, pytest.raises(InputError, match=said):
        engine.infer(np.zeros(shape, np.float32))


def test_an_onnx_file_is_no_engine_yet_and_the_error_names_the_command(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"x")
    with pytest.raises(InputError, match=r"m\.onnx is an ONNX model; .* trtlab build --onnx \S+m\.onnx --engine FILE$"):
        InferenceEngine(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    "content, said",
    [
        (None, r"cannot read the engine .*e\.engine.*trtlab build"),
        (b"", r"e\.engine is empty"),
        (b"x", r"e\.engine \(1 bytes\) is no engine"),
        (b"ftrt" + b"\0" * 100, r"it was built on: TensorRT 10\.16\.1, NVIDIA H200; build it again here"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_named(tmp_path: Path, content: bytes | None, said: str) -> None:
    engine = {"device": "TensorRT 10.16.1, NVIDIA H200"}
    write_json(tmp_path / "e.engine.json", {"engine": engine, "precision": "fp32", "inputs": []})
    if content is not None:
        (tmp_path / "e.engine").write_bytes(content)
    with pytest.raises(InputError, match=said):
        InferenceEngine(tmp_path / "e.engine")
