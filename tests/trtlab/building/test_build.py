"""Builds of tiny networks on the engine of this machine: what comes out, and every kind of wrong input."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from helpers.engine.backend import API, DEVICE, trt
from helpers.tools.files import read_json, sha256
from tests.trtlab.tiny_models import SIZE, image_folder, images_npy, operator_onnx, tiny_onnx
from trtcpu.errors import EngineError, InputError
from trtlab.building.build import BuildOptions, build_engine, input_specs
from trtlab.engines.engine_log import LOG
from trtlab.engines.inference import InferenceEngine
from trtlab.engines.network import parse_onnx
from trtlab.images.preprocessing import load_batch


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    images_npy(folder / "c.npy", 20)
    (folder / "other.cache").write_text("TRT-8600-MinMaxCalibration\ninput: 3caa54fc\na: 3c000000\nb: 3c000000\n")
    (folder / "garbage.cache").write_bytes(b"garbage" * 20)
    return folder


def _outputs(path: Path, images: np.ndarray) -> np.ndarray:
    with InferenceEngine(path) as engine:
        return engine.infer(images)


def _options(folder: Path, given: dict[str, Any]) -> BuildOptions:
    """Return the options; those that name a file, with the file in the folder."""
    files = {name: folder / value for name, value in given.items() if "." in str(value)}
    return BuildOptions(**{**given, **files})


def _nothing_left(folder: Path, *expected: str) -> bool:
    return {path.name for path in folder.iterdir()} == set(expected)


@pytest.mark.parametrize(
    "precision, allowed",
    [("fp32", 1e-5), ("tf32", 1e-2), ("fp16", 2e-2), ("bf16", 2e-2), ("int8", 5e-2), ("int8+fp16", 5e-2)],
)
def test_each_precision_computes_the_model(folder: Path, tmp_path: Path, precision: str, allowed: float) -> None:
    model = tiny_onnx(folder)
    # min-max: the entropy of the pooled layer's few values says little
    calibration = {"calib_npy": folder / "c.npy", "calibrator": "minmax"} if "int8" in precision else {}
    build_engine(model, tmp_path / "e.engine", BuildOptions(precision=precision, **calibration))
    images = np.random.default_rng(9).standard_normal((5, 3, SIZE, SIZE), dtype=np.float32)
    expected = onnxruntime.InferenceSession(str(model)).run(None, {"input": images})[0]
    found = _outputs(tmp_path / "e.engine", images)
    assert np.linalg.norm(found - expected) / np.linalg.norm(expected) < allowed


def test_the_record_says_how_the_engine_was_built(folder: Path, tmp_path: Path) -> None:
    model, engine = tiny_onnx(folder), tmp_path / "e.engine"
    options = BuildOptions(precision="fp16", min_batch=2, opt_batch=3, max_batch=4, opt_level=1, workspace_mb=64)
    record = build_engine(model, engine, options)
    found = read_json(f"{engine}.json")
    assert found == json.loads(json.dumps(vars(record)))
    assert found["engine"]["device"] == DEVICE and found["engine"]["version"] == trt.__version__
    assert found["onnx_sha256"] == sha256(model) and found["size_bytes"] == engine.stat().st_size
    assert found["profile"] == {"min": 2, "opt": 3, "max": 4} and found["dynamic"]
    assert found["flags"] == (["TF32", "FP16"] if API == 10 else ["TF32"])
    assert (found["opt_level"], found["workspace_mb"]) == (1, 64)
    assert found["layers"] == sum(found["layer_precisions"].values()) > 0


@pytest.mark.parametrize("calibrator", ["entropy", "minmax", "percentile"])
def test_a_cache_gives_the_same_engine_as_the_calibration_that_wrote_it(
    folder: Path, tmp_path: Path, calibrator: str
) -> None:
    model, data, said = tiny_onnx(folder), folder / "c.npy", []
    cache = tmp_path / "a.engine.cache"
    calibrated = BuildOptions(precision="int8", calibrator=calibrator, calib_npy=data)
    record = build_engine(model, tmp_path / "a.engine", calibrated, progress=said.append)
    about = {"calibrator": calibrator, "source": str(data), "cache": str(cache), "images": 20, "given": 20}
    assert record.calibration == about and record.layer_precisions["int8"] >= 2
    assert "calibrating: batch 4 of 4" in said
    again = build_engine(model, tmp_path / "b.engine", BuildOptions(precision="int8", calib_cache=cache))
    assert again.calibration["calibrator"] == calibrator and again.calibration["images"] == 0
    images = np.load(data)
    found = [_outputs(tmp_path / f"{name}.engine", images) for name in "ab"]
    np.testing.assert_array_equal(*found)
    other = BuildOptions(
        precision="int8", calib_cache=cache, calibrator={"entropy": "minmax"}.get(calibrator, "entropy")
    )
    with pytest.raises(InputError, match=f"written by the {calibrator} calibrator, not by {other.calibrator}"):
        build_engine(model, tmp_path / "c.engine", other)


def test_images_calibrate_as_the_tensor_of_their_preprocessing_does(folder: Path, tmp_path: Path) -> None:
    images = image_folder(tmp_path / "images", 8)
    np.save(tmp_path / "c.npy", load_batch(sorted(images.iterdir()), SIZE))
    for name, source in (("a", {"calib_images": images}), ("b", {"calib_npy": tmp_path / "c.npy"})):
        build_engine(tiny_onnx(folder), tmp_path / name, BuildOptions(precision="int8", **source))
    assert (tmp_path / "a.cache").read_bytes() == (tmp_path / "b.cache").read_bytes()


def test_a_timing_cache_is_used_though_tensorrt_cannot_read_its_myelin_part(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What TensorRT 8.6 says on an H200 of a cache that it has just written; its next build took 2.8 s, not 29."""
    create = trt.IBuilderConfig.create_timing_cache

    def complaining(config: Any, data: bytes) -> Any:
        if data:
            config._logger.log(trt.Logger.ERROR, "1: [myelinCache.h::deserializeFromBuffer::52] Myelin error")
            config._logger.log(trt.Logger.ERROR, "4: The timing cache will not be used!")
        return create(config, data)

    monkeypatch.setattr(trt.IBuilderConfig, "create_timing_cache", complaining)
    options = BuildOptions(timing_cache=tmp_path / "t.cache")
    for name in ("a.engine", "b.engine"):
        build_engine(tiny_onnx(folder), tmp_path / name, options)
        assert (tmp_path / "t.cache").stat().st_size > 0
    assert (tmp_path / "b.engine").read_bytes() == (tmp_path / "a.engine").read_bytes()


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "is empty"),
        (b"garbage" * 99, "no ONNX model"),
        (b"\0" * 64, "no ONNX model"),
        *((share, "") for share in (0.1, 0.5, 0.99)),
        ("NoSuchOperator", "NoSuchOperator"),
        ("my.domain.Mystery", "Mystery"),
    ],
)
def test_a_file_that_is_no_model_or_a_part_of_one_or_has_an_unknown_operator_is_named(
    folder: Path, tmp_path: Path, content: bytes | float | str, said: str
) -> None:
    path = tmp_path / "m.onnx"
    if isinstance(content, str):
        domain, _, operator = content.rpartition(".")
        operator_onnx(path, operator, domain=domain)
    else:
        whole = tiny_onnx(folder).read_bytes()
        path.write_bytes(content if isinstance(content, bytes) else whole[: int(content * len(whole))])
    with pytest.raises(InputError, match=rf"m\.onnx.*{said}"):
        build_engine(path, tmp_path / "e.engine", BuildOptions())
    assert _nothing_left(tmp_path, "m.onnx")


def test_missing_external_weights_are_named(folder: Path, tmp_path: Path) -> None:
    path, place = tmp_path / "m.onnx", {"location": "weights.bin", "size_threshold": 16}
    onnx.save(onnx.load(tiny_onnx(folder)), path, save_as_external_data=True, **place)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(InputError, match=r"weights in weights\.bin, which is missing"):
        build_engine(path, tmp_path / "e.engine", BuildOptions())
    assert _nothing_left(tmp_path, "m.onnx")


@pytest.mark.parametrize(
    "asked, expected",
    [
        ({}, (1, 8, 32)),
        ({"max_batch": 4}, (1, 4, 4)),
        ({"min_batch": 16}, (16, 16, 32)),
        ({"opt_batch": 64}, (1, 64, 64)),
        ({"min_batch": 2, "opt_batch": 2, "max_batch": 2}, (2, 2, 2)),
    ],
)
def test_the_profile_of_a_dynamic_model_is_completed_sensibly(folder: Path, asked: dict, expected: tuple) -> None:
    assert input_specs(parse_onnx(tiny_onnx(folder)), BuildOptions(**asked))["input"].batches == expected


@pytest.mark.parametrize("name", ["min_batch", "opt_batch", "max_batch"])
def test_a_batch_that_contradicts_a_fixed_model_is_an_error(folder: Path, name: str) -> None:
    model = parse_onnx(tiny_onnx(folder, dynamic=False, batch=2))
    with pytest.raises(InputError, match=f"fixed batch of 2, so --{name.replace('_', '-')} 8"):
        input_specs(model, BuildOptions(**{name: 8}))
    assert input_specs(model, BuildOptions(**{name: 2}))["input"].batches == (2, 2, 2)


@pytest.mark.parametrize(
    "options, said",
    [
        ({"precision": "fp8"}, "'fp8' is unknown; choose one of fp32, tf32"),
        ({"precision": "int8", "calibrator": "magic"}, "'magic' is unknown"),
        ({"precision": "int8", "calib_npy": "a", "calib_images": "b"}, "exclude each other"),
        ({"precision": "fp16", "calib_npy": "a"}, "does nothing to fp16"),
        ({"min_batch": 8, "max_batch": 4}, "1 <= min <= opt <= max"),
        ({"opt_batch": 9, "max_batch": 4}, "1 <= min <= opt <= max"),
        ({"max_batch": 10**12}, "input:1000000000000x3x32x32 has more than 2,147,483,647 elements"),
        ({"precision": "int8", "calib_cache": "other.cache"}, "belongs to another model: 1 of its 3"),
        ({"timing_cache": "garbage.cache"}, r"garbage\.cache is no timing cache"),
    ],
)
def test_wrong_options_are_explained(folder: Path, tmp_path: Path, options: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        build_engine(tiny_onnx(folder), tmp_path / "e.engine", _options(folder, options))
    assert _nothing_left(tmp_path)


def test_an_image_that_breaks_in_the_middle_of_a_calibration_fails_the_build(folder: Path, tmp_path: Path) -> None:
    images = image_folder(tmp_path / "images", 16)
    (images / "12.png").write_bytes(b"broken")
    with pytest.raises(InputError, match=r"12\.png"):
        build_engine(tiny_onnx(folder), tmp_path / "e.engine", BuildOptions(precision="int8", calib_images=images))
    assert _nothing_left(tmp_path, "images")


def test_a_folder_that_cannot_be_written_to_fails_before_the_build(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    said: list[str] = []
    with pytest.raises(InputError, match="cannot write"):
        build_engine(tiny_onnx(folder), tmp_path / "file" / "e.engine", BuildOptions(), progress=said.append)
    assert said == ["parsing"]


@pytest.mark.parametrize("given", [{}, {"precision": "int8", "explicit": True, "calib_npy": "c.npy"}])
def test_a_build_that_fails_says_what_tensorrt_logs_and_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict
) -> None:
    def refuse(self: trt.Builder, network: object, config: object) -> None:
        LOG.log(trt.ILogger.Severity.ERROR, "10: could not find any implementation\nfor node x")

    monkeypatch.setattr(trt.Builder, "build_serialized_network", refuse)
    with pytest.raises(EngineError, match=r"as (fp32|int8): 10: could not find any implementation for node x"):
        build_engine(tiny_onnx(folder), tmp_path / "e.engine", _options(folder, given))
    assert _nothing_left(tmp_path)
