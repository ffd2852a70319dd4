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
from trtcpu.errors import EngineError, InputError, LabError
from trtlab.building.build import BuildOptions, build_engine
from trtlab.engines.inference import InferenceEngine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def _reference(onnx_path: Path, images: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(onnx_path), providers=["CPUExecutionProvider"])
    return session.run(None, {"input": images})[0]


def _relative(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize(
    "precision, allowed",
    [("fp32", 1e-5), ("tf32", 1e-2), ("fp16", 2e-2), ("bf16", 2e-2), ("int8", 5e-2), ("int8+fp16", 5e-2)],
)
def test_each_precision_computes_the_model(folder: Path, tmp_path: Path, precision: str, allowed: float) -> None:
    model = tiny_onnx(folder)
    # min-max: the entropy of the pooled layer's few values says little
    calibration = {"calib_npy": images_npy(tmp_path / "c.npy"), "calibrator": "minmax"} if "int8" in precision else {}
    record = build_engine(model, tmp_path / "e.engine", BuildOptions(precision=precision, **calibration))
    images = np.random.default_rng(9).standard_normal((5, 3, SIZE, SIZE), dtype=np.float32)
    with InferenceEngine(tmp_path / "e.engine") as engine:
        found = engine.infer(images)
    assert _relative(found, _reference(model, images)) < allowed
    assert record.size_bytes == (tmp_path / "e.engine").stat().st_size


def test_the_record_says_how_the_engine_was_built(folder: Path, tmp_path: Path) -> None:
    model = tiny_onnx(folder)
    options = BuildOptions(precision="fp16", min_batch=2, opt_batch=3, max_batch=4, opt_level=1, workspace_mb=64)
    record = build_engine(model, tmp_path / "e.engine", options)
    found = read_json(tmp_path / "e.engine.json")
    assert found == json.loads(json.dumps(record.to_dict()))
    assert found["engine"]["device"] == DEVICE and found["engine"]["version"] == trt.__version__
    assert found["onnx_sha256"] == sha256(model)
    assert found["profile"] == {"min": 2, "opt": 3, "max": 4} and found["dynamic"]
    assert found["flags"] == (["TF32", "FP16"] if API == 10 else ["TF32"])
    assert (found["opt_level"], found["workspace_mb"]) == (1, 64)
    assert found["layers"] == sum(found["layer_precisions"].values()) > 0


def test_an_int8_engine_runs_its_convolutions_in_int8(folder: Path, tmp_path: Path) -> None:
    options = BuildOptions(precision="int8", calib_npy=images_npy(tmp_path / "c.npy"))
    record = build_engine(tiny_onnx(folder), tmp_path / "e.engine", options)
    assert record.layer_precisions.get("int8", 0) >= 2


@pytest.mark.parametrize("calibrator", ["entropy", "minmax", "percentile"])
def test_a_cache_gives_the_same_engine_as_the_calibration_that_wrote_it(
    folder: Path, tmp_path: Path, calibrator: str
) -> None:
    model, said = tiny_onnx(folder), []
    images = np.load(images_npy(tmp_path / "c.npy", 20))
    calibrated = BuildOptions(precision="int8", calibrator=calibrator, calib_npy=tmp_path / "c.npy")
    record = build_engine(model, tmp_path / "a.engine", calibrated, progress=said.append)
    cache = tmp_path / "a.engine.cache"
    assert record.calibration == {
        "calibrator": calibrator,
        "source": str(tmp_path / "c.npy"),
        "cache": str(cache),
        "images": 20,
        "given": 20,
    }
    assert "calibrating: batch 4 of 4" in said
    again = build_engine(model, tmp_path / "b.engine", BuildOptions(precision="int8", calib_cache=cache))
    assert again.calibration["calibrator"] == calibrator and again.calibration["images"] == 0
    with InferenceEngine(tmp_path / "a.engine") as a, InferenceEngine(tmp_path / "b.engine") as b:
        np.testing.assert_array_equal(a.infer(images), b.infer(images))


def test_images_calibrate_as_the_tensor_of_their_preprocessing_does(folder: Path, tmp_path: Path) -> None:
    from trtlab.images.preprocessing import load_batch

    images = image_folder(tmp_path / "images", 8)
    np.save(tmp_path / "c.npy", load_batch(sorted(images.iterdir()), SIZE))
    for name, source in (("a", {"calib_images": images}), ("b", {"calib_npy": tmp_path / "c.npy"})):
        build_engine(tiny_onnx(folder), tmp_path / name, BuildOptions(precision="int8", **source))
    assert (tmp_path / "a.cache").read_bytes() == (tmp_path / "b.cache").read_bytes()


def test_a_fixed_batch_calibrates_with_its_own_batch(folder: Path, tmp_path: Path) -> None:
    model = tiny_onnx(folder, dynamic=False, batch=3)
    options = BuildOptions(precision="int8", calib_npy=images_npy(tmp_path / "c.npy", 10))
    record = build_engine(model, tmp_path / "e.engine", options)
    assert record.calibration["images"] == 9 and record.profile == {"min": 3, "opt": 3, "max": 3}
    assert not record.dynamic


def test_a_timing_cache_is_written_and_used_again(folder: Path, tmp_path: Path) -> None:
    options = BuildOptions(timing_cache=tmp_path / "t.cache")
    build_engine(tiny_onnx(folder), tmp_path / "a.engine", options)
    assert (tmp_path / "t.cache").stat().st_size > 0
    build_engine(tiny_onnx(folder), tmp_path / "b.engine", options)


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
    assert (tmp_path / "b.engine").read_bytes() == (tmp_path / "a.engine").read_bytes()


def _nothing_left(folder: Path, *expected: str) -> bool:
    return {path.name for path in folder.iterdir()} == set(expected)


@pytest.mark.parametrize(
    "content, said", [(b"", "is empty"), (b"garbage" * 99, "no ONNX model"), (b"\0" * 64, "no ONNX model")]
)
def test_a_file_that_is_no_model_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(InputError, match=rf"m\.onnx.*{said}"):
        build_engine(tmp_path / "m.onnx", tmp_path / "e.engine", BuildOptions())
    assert _nothing_left(tmp_path, "m.onnx")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_model_is_named(folder: Path, tmp_path: Path, share: float) -> None:
    data = tiny_onnx(folder).read_bytes()
    (tmp_path / "m.onnx").write_bytes(data[: int(share * len(data))])
    with pytest.raises(InputError, match=r"m\.onnx"):
        build_engine(tmp_path / "m.onnx", tmp_path / "e.engine", BuildOptions())
    assert _nothing_left(tmp_path, "m.onnx")


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the ONNX model .*trtlab export"):
        build_engine(tmp_path / "m.onnx", tmp_path / "e.engine", BuildOptions())


@pytest.mark.parametrize("operator, domain", [("NoSuchOperator", ""), ("Mystery", "my.domain")])
def test_an_unsupported_operator_is_named(tmp_path: Path, operator: str, domain: str) -> None:
    model = operator_onnx(tmp_path / "m.onnx", operator, domain=domain)
    with pytest.raises(InputError, match=operator):
        build_engine(model, tmp_path / "e.engine", BuildOptions())
    assert _nothing_left(tmp_path, "m.onnx")


def test_a_model_with_two_inputs_adds_them(tmp_path: Path) -> None:
    record = build_engine(operator_onnx(tmp_path / "m.onnx", "Add", inputs=2), tmp_path / "e.engine", BuildOptions())
    assert [entry["name"] for entry in record.inputs] == ["in0", "in1"]
    feeds = {name: np.full((3, 3, SIZE, SIZE), value, np.float32) for name, value in (("in0", 2), ("in1", 5))}
    with InferenceEngine(tmp_path / "e.engine") as engine:
        np.testing.assert_array_equal(engine.run(feeds)["out"], np.full((3, 3, SIZE, SIZE), 7, np.float32))


def test_a_batch_beyond_what_an_engine_can_index_is_an_error(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="input:1000000000000x3x32x32 has more than 2,147,483,647 elements"):
        build_engine(tiny_onnx(folder), tmp_path / "e.engine", BuildOptions(max_batch=10**12))
    assert _nothing_left(tmp_path)


def test_missing_external_weights_are_named(folder: Path, tmp_path: Path) -> None:
    onnx.save(
        onnx.load(str(tiny_onnx(folder))),
        str(tmp_path / "m.onnx"),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=16,
    )
    build_engine(tmp_path / "m.onnx", tmp_path / "e.engine", BuildOptions())
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(InputError, match=r"weights in weights\.bin, which is missing"):
        build_engine(tmp_path / "m.onnx", tmp_path / "f.engine", BuildOptions())
    assert not (tmp_path / "f.engine").exists()


@pytest.mark.parametrize("name", ["min_batch", "opt_batch", "max_batch"])
def test_a_batch_that_contradicts_a_fixed_model_is_an_error(folder: Path, tmp_path: Path, name: str) -> None:
    model = tiny_onnx(folder, dynamic=False, batch=2)
    with pytest.raises(InputError, match=f"fixed batch of 2, so --{name.replace('_', '-')} 8"):
        build_engine(model, tmp_path / "e.engine", BuildOptions(**{name: 8}))
    build_engine(model, tmp_path / "e.engine", BuildOptions(**{name: 2}))


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
def test_the_profile_of_a_dynamic_model_is_completed_sensibly(asked: dict, expected: tuple) -> None:
    assert BuildOptions(**asked).batches(None, "m.onnx") == expected


@pytest.mark.parametrize(
    "asked", [{"min_batch": 0}, {"min_batch": 8, "max_batch": 4}, {"opt_batch": 9, "max_batch": 4}]
)
def test_batches_out_of_order_are_an_error(asked: dict) -> None:
    with pytest.raises(InputError, match="1 <= min <= opt <= max"):
        BuildOptions(**asked).batches(None, "m.onnx")


@pytest.mark.parametrize(
    "options, said",
    [
        ({"precision": "fp8"}, "'fp8' is unknown; choose one of fp32, tf32"),
        ({"workspace_mb": 0}, "workspace of 0 MB"),
        ({"opt_level": 6}, "level 6 does not exist"),
        ({"precision": "int8", "calibrator": "magic"}, "'magic' is unknown"),
        ({"precision": "int8"}, "needs calibration"),
        ({"precision": "int8", "calib_npy": "a", "calib_images": "b"}, "exclude each other"),
        ({"precision": "fp16", "calib_npy": "a"}, "does nothing to fp16"),
    ],
)
def test_wrong_options_are_explained(folder: Path, tmp_path: Path, options: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        build_engine(tiny_onnx(folder), tmp_path / "e.engine", BuildOptions(**options))
    assert _nothing_left(tmp_path)


def test_an_image_that_breaks_in_the_middle_of_a_calibration_fails_the_build(folder: Path, tmp_path: Path) -> None:
    images = image_folder(tmp_path / "images", 16)
    (images / "12.png").write_bytes(b"broken")
    with pytest.raises(InputError, match=r"12\.png"):
        build_engine(tiny_onnx(folder), tmp_path / "e.engine", BuildOptions(precision="int8", calib_images=images))
    assert _nothing_left(tmp_path, "images")


def test_ctrl_c_during_a_calibration_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    def interrupt(text: str) -> None:
        if "batch 2" in text:
            raise KeyboardInterrupt

    options = BuildOptions(precision="int8", calib_npy=images_npy(tmp_path / "c.npy"))
    with pytest.raises(KeyboardInterrupt):
        build_engine(tiny_onnx(folder), tmp_path / "e.engine", options, progress=interrupt)
    assert _nothing_left(tmp_path, "c.npy")


def test_a_cache_of_another_model_or_of_another_calibrator_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "c.cache").write_text("TRT-8600-MinMaxCalibration\ninput: 3caa54fc\na: 3c000000\nb: 3c000000\n")
    for options, said in (
        ({}, "belongs to another model: 1 of its 3"),
        ({"calibrator": "entropy"}, "written by the minmax calibrator, not by entropy"),
    ):
        with pytest.raises(InputError, match=said):
            build_engine(
                tiny_onnx(folder),
                tmp_path / "e.engine",
                BuildOptions(precision="int8", calib_cache=tmp_path / "c.cache", **options),
            )
    assert _nothing_left(tmp_path, "c.cache")


def test_a_garbage_timing_cache_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "t.cache").write_bytes(b"garbage" * 20)
    with pytest.raises(InputError, match=r"t\.cache is no timing cache"):
        build_engine(tiny_onnx(folder), tmp_path / "e.engine", BuildOptions(timing_cache=tmp_path / "t.cache"))
    assert _nothing_left(tmp_path, "t.cache")


def test_a_folder_that_cannot_be_written_to_fails_before_the_build(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    said: list[str] = []
    with pytest.raises(InputError, match="cannot write"):
        build_engine(tiny_onnx(folder), tmp_path / "file" / "e.engine", BuildOptions(), progress=said.append)
    assert said == ["parsing"]


def test_a_full_disk_leaves_the_old_engine(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    (tmp_path / "e.engine").write_text("old")
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(InputError, match="No space left on device"):
        build_engine(tiny_onnx(folder), tmp_path / "e.engine", BuildOptions())
    assert _nothing_left(tmp_path, "e.engine") and (tmp_path / "e.engine").read_text() == "old"


def test_what_tensorrt_logs_is_in_the_error(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: trt.Builder, network: object, config: object) -> None:
        from trtlab.engines.engine_log import LOG

        LOG.log(trt.ILogger.Severity.ERROR, "10: could not find any implementation\nfor node x")

    monkeypatch.setattr(trt.Builder, "build_serialized_network", refuse)
    with pytest.raises(EngineError, match="as fp32: 10: could not find any implementation for node x"):
        build_engine(tiny_onnx(folder), tmp_path / "e.engine", BuildOptions())
    assert _nothing_left(tmp_path)
    assert issubclass(EngineError, LabError)
