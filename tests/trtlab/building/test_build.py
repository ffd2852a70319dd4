"""Builds of tiny networks on the engine of this machine, with flags and explicit ones: what comes out, and wrong input.

The model of an explicit build is looked at node by node, and run in ONNX Runtime.
"""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from helpers.engine import backend
from helpers.engine.backend import API, DEVICE, ENGINE, trt
from helpers.tools.files import read_json, sha256
from tests.trtlab.tiny_models import SIZE, image_folder, operator_onnx, tiny_onnx
from trtcpu import _openvino
from trtcpu.errors import EngineError, InputError
from trtlab.building.build import BuildOptions, build_engine, input_specs
from trtlab.building.build_options import has_strong_types
from trtlab.building.calibration_data import tensor_batches
from trtlab.building.typed import calibrated, explicit_int8, float_model, quantised_layers
from trtlab.engines.engine_log import LOG
from trtlab.engines.inference import InferenceEngine
from trtlab.engines.network import parse_onnx
from trtlab.engines.tensors import InputSpec
from trtlab.images.preprocessing import load_batch

strongly_typed = pytest.mark.skipif(not has_strong_types(), reason="TensorRT 8 has no strongly typed networks")
IMAGES = np.random.default_rng(9).standard_normal((5, 3, SIZE, SIZE), dtype=np.float32)
WEIGHTED = ("/stem/stem.0/Conv", "/block/block.0/Conv", "/head/Gemm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    np.save(folder / "c.npy", load_batch(sorted(image_folder(folder / "c.images", 20).iterdir()), SIZE))
    (folder / "other.cache").write_text("TRT-8600-MinMaxCalibration\ninput: 3caa54fc\na: 3c000000\nb: 3c000000\n")
    (folder / "garbage.cache").write_bytes(b"garbage" * 20)
    (image_folder(folder / "broken.images", 16) / "12.png").write_bytes(b"broken")
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> onnx.ModelProto:
    path = tiny_onnx(folder)
    return float_model(path.read_bytes(), str(path))


@pytest.fixture(scope="module")
def scales(folder: Path, model: onnx.ModelProto) -> dict[str, float]:
    inputs = {"input": InputSpec("input", np.dtype(np.float32), *[(4, 3, SIZE, SIZE)] * 3)}
    return calibrated(model, "minmax", tensor_batches(folder / "c.npy", inputs, None), print).scales


def run(model: onnx.ModelProto) -> np.ndarray:
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"input": IMAGES})[0]


def answers(path: Path) -> np.ndarray:
    with InferenceEngine(path) as engine:
        return engine.infer(IMAGES)


def apart(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def options(folder: Path, precision: str = "fp32", **more: object) -> BuildOptions:
    """Return the options: those that name a file, with the file in the folder; INT8 is calibrated where none do."""
    # min-max: the entropy of the pooled layer's few values says little
    data = {"calib_npy": "c.npy", "calibrator": "minmax"} if precision.startswith("int8") else {}
    given = more if any(name.startswith("calib_") for name in more) else {**data, **more}
    files = {name: folder / value for name, value in given.items() if "." in str(value)}
    return BuildOptions(**{"precision": precision, **given, **files})


EACH = [
    ("fp32", {"fp32", "tf32"}, 1e-5),
    ("tf32", {"fp32", "tf32"}, 1e-2),
    ("fp16", {"fp16", "bf16"}, 2e-2),
    ("bf16", {"bf16"}, 2e-2),
    ("int8", {"int8"}, 5e-2),
    ("int8+fp16", {"int8"}, 5e-2),
]


@pytest.mark.parametrize(
    "precision, kinds, allowed, explicit",
    [*((*each, False) for each in EACH), *(pytest.param(*each, True, marks=strongly_typed) for each in EACH[2:])],
)
def test_each_precision_computes_the_model_and_is_what_runs(
    folder: Path, tmp_path: Path, precision: str, kinds: set[str], allowed: float, explicit: bool
) -> None:
    source, path = tiny_onnx(folder), tmp_path / "e.engine"
    record = build_engine(source, path, options(folder, precision, explicit=explicit))
    found = answers(path)
    assert apart(found, run(onnx.load(source))) < allowed
    assert sum(record.ran["stored"].values()) == len(WEIGHTED)
    assert record.ran["said"] or {*record.ran["ran"]} <= kinds
    if explicit:
        assert record.flags == ["TF32"] and record.typed_onnx == f"{path}.onnx"
        onnx.checker.check_model(onnx.load(f"{path}.onnx"), full_check=True)
        # ONNX Runtime has no BF16 convolution on a CPU
        assert precision == "bf16" or apart(found, run(onnx.load(f"{path}.onnx"))) < allowed


def test_the_record_says_how_the_engine_was_built(folder: Path, tmp_path: Path) -> None:
    model, engine = tiny_onnx(folder), tmp_path / "e.engine"
    asked = BuildOptions(precision="fp16", min_batch=2, opt_batch=3, max_batch=4, opt_level=1, workspace_mb=64)
    record = build_engine(model, engine, asked)
    found = read_json(f"{engine}.json")
    assert found == json.loads(json.dumps(vars(record)))
    assert found["engine"]["device"] == DEVICE and found["engine"]["version"] == trt.__version__
    expected = {
        **{"onnx_sha256": sha256(model), "size_bytes": engine.stat().st_size, "opt_level": 1, "workspace_mb": 64},
        **{"profile": {"min": 2, "opt": 3, "max": 4}, "dynamic": True},
        "flags": ["TF32", "FP16"] if API == 10 else ["TF32"],
    }
    assert {key: found[key] for key in expected} == expected
    assert found["layers"] == sum(found["layer_precisions"].values()) > 0


@pytest.mark.parametrize("explicit", [False, pytest.param(True, marks=strongly_typed)])
@pytest.mark.parametrize("calibrator", ["entropy", "minmax", "percentile"])
def test_a_cache_gives_the_same_engine_as_the_calibration_that_wrote_it(
    folder: Path, tmp_path: Path, calibrator: str, explicit: bool
) -> None:
    model, said, cache = tiny_onnx(folder), [], tmp_path / "a.cache"
    given = options(folder, "int8", calibrator=calibrator, explicit=explicit)
    record = build_engine(model, tmp_path / "a", given, said.append)
    about = {"calibrator": calibrator, "source": str(folder / "c.npy"), "cache": str(cache), "images": 20, "given": 20}
    assert record.calibration == about and record.layer_precisions["int8"] >= 2
    assert "calibrating: batch 4 of 4" in said
    again = build_engine(model, tmp_path / "b", options(folder, "int8", explicit=explicit, calib_cache=cache))
    assert again.calibration["calibrator"] == calibrator and again.calibration["images"] == 0
    np.testing.assert_array_equal(answers(tmp_path / "a"), answers(tmp_path / "b"))
    other = "minmax" if calibrator == "entropy" else "entropy"
    with pytest.raises(InputError, match=f"written by the {calibrator} calibrator, not by {other}"):
        build_engine(model, tmp_path / "c", options(folder, "int8", calib_cache=cache, calibrator=other))
    if explicit and ENGINE == "cpu":  # TensorRT's scales and kernels differ a little
        implicit = options(folder, "int8", calibrator=calibrator, calib_images="c.images")
        build_engine(model, tmp_path / "implicit", implicit)
        assert (tmp_path / "implicit.cache").read_bytes() == cache.read_bytes()
        # Where products are added in 16 bits, weights are rounded to eight bits and halved, or rounded to seven.
        allowed = 2e-2 if _openvino.saturates_int8() else 1e-5
        assert apart(answers(tmp_path / "a"), answers(tmp_path / "implicit")) < allowed


@strongly_typed
def test_a_model_with_scales_of_its_own_needs_no_calibration_and_is_built_in_int8_alone(
    folder: Path, tmp_path: Path
) -> None:
    build_engine(tiny_onnx(folder), tmp_path / "a", options(folder, "int8", explicit=True))
    record = build_engine(tmp_path / "a.onnx", tmp_path / "c", BuildOptions(precision="int8+fp16", explicit=True))
    assert record.calibration is None and record.ran["ran"] == {"int8": 3}
    for precision in ("fp32", "fp16"):
        with pytest.raises(InputError, match=f"has Q/DQ nodes, .*{precision} was asked for: give --precision int8"):
            build_engine(tmp_path / "a.onnx", tmp_path / "d", BuildOptions(precision=precision))


@pytest.mark.skipif(API >= 11, reason="TensorRT 11 builds explicitly, and that refuses the data")
@pytest.mark.parametrize("given", [{"calib_npy": "c.npy"}, {"calib_cache": "c.cache"}])
def test_data_that_a_model_with_scales_of_its_own_does_not_need_is_no_calibration(
    folder: Path, tmp_path: Path, model: onnx.ModelProto, scales: dict[str, float], given: dict
) -> None:
    onnx.save(explicit_int8(model, scales), tmp_path / "m.onnx")
    build_engine(tiny_onnx(folder), tmp_path / "a", options(folder, "int8", calib_npy="c.npy"))
    (tmp_path / "a.cache").rename(folder / "c.cache")
    record = build_engine(tmp_path / "m.onnx", tmp_path / "e", options(folder, "int8", **given))
    assert record.calibration is None and not (tmp_path / "e.cache").exists()


@pytest.mark.parametrize("naive, added", [(False, {"Conv", "DequantizeLinear"}), (True, {"Conv", "Relu"})])
def test_an_explicit_model_computes_nearly_the_same_and_a_naive_one_adds_floats(
    model: onnx.ModelProto, scales: dict[str, float], naive: bool, added: set[str]
) -> None:
    quantised = explicit_int8(model, scales, naive=naive)
    onnx.checker.check_model(quantised, full_check=True)
    assert 1e-4 < apart(run(quantised), run(model)) < 0.05
    assert quantised_layers(quantised) == [*WEIGHTED] and quantised_layers(model) == []
    made = {name: node.op_type for node in quantised.graph.node for name in node.output}
    add = next(node for node in quantised.graph.node if node.op_type == "Add")
    assert {made[name] for name in add.input} == added
    kinds = {tensor.name: tensor.data_type for tensor in quantised.graph.initializer}
    biases = {kinds[node.input[2]] for node in quantised.graph.node if node.name in WEIGHTED}
    assert biases == {onnx.TensorProto.FLOAT}  # NVIDIA's parser refuses integers


@pytest.mark.parametrize(
    "work, said",
    [
        (lambda model, scales: explicit_int8(explicit_int8(model, scales), scales), "has Q/DQ nodes already"),
        (lambda model, scales: explicit_int8(model, {"another's": 0.1}), "has an input with a scale; calibrate again"),
        (lambda model, scales: float_model(b"garbage" * 9, "m.onnx"), r"m\.onnx cannot be rewritten"),
    ],
)
def test_what_cannot_be_quantised_or_read_is_refused(
    model: onnx.ModelProto, scales: dict[str, float], work: Callable[..., object], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        work(model, scales)


@strongly_typed
def test_on_tensorrt_11_the_explicit_way_is_taken_by_itself(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "API", 11)
    record = build_engine(tiny_onnx(folder), tmp_path / "e", options(folder, "int8"))
    assert record.typed_onnx and record.ran["ran"] == {"int8": 3}
    assert build_engine(tiny_onnx(folder), tmp_path / "f", BuildOptions()).typed_onnx is None


@pytest.mark.skipif(API != 10, reason="TensorRT 11 has no flags to build with")
def test_on_tensorrt_8_int8_is_built_with_flags_and_halves_are_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = SimpleNamespace(EXPLICIT_BATCH=trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)
    monkeypatch.setattr(trt, "NetworkDefinitionCreationFlag", flags)
    record = build_engine(tiny_onnx(folder), tmp_path / "e", options(folder, "int8+fp16", explicit=True))
    assert record.flags == ["TF32", "FP16", "INT8"] and record.ran["ran"] == {"int8": 3}
    with pytest.raises(InputError, match="no strongly typed networks; drop --explicit, or use TensorRT 10"):
        build_engine(tiny_onnx(folder), tmp_path / "f", options(folder, "fp16", explicit=True))


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
    for name in ("a.engine", "b.engine"):
        build_engine(tiny_onnx(folder), tmp_path / name, BuildOptions(timing_cache=tmp_path / "t.cache"))
        assert (tmp_path / "t.cache").stat().st_size > 0
    assert (tmp_path / "b.engine").read_bytes() == (tmp_path / "a.engine").read_bytes()


@pytest.mark.parametrize(
    "write, said",
    [
        (lambda path, whole: path.write_bytes(b""), "is empty"),
        (lambda path, whole: path.write_bytes(b"garbage" * 99), "no ONNX model"),
        (lambda path, whole: path.write_bytes(bytes(64)), "no ONNX model"),
        (lambda path, whole: path.write_bytes(whole[: len(whole) // 10]), ""),
        (lambda path, whole: path.write_bytes(whole[: len(whole) // 2]), ""),
        (lambda path, whole: path.write_bytes(whole[:-9]), ""),
        (lambda path, whole: operator_onnx(path, "NoSuchOperator"), "NoSuchOperator"),
        (lambda path, whole: operator_onnx(path, "Mystery", domain="my.domain"), "Mystery"),
        (lambda path, whole: without_weights(path, whole), r"weights in weights\.bin, which is missing"),
    ],
)
def test_a_file_that_is_no_model_or_a_part_of_one_or_has_an_unknown_operator_is_named(
    folder: Path, tmp_path: Path, write: Callable[[Path, bytes], object], said: str
) -> None:
    write(tmp_path / "m.onnx", tiny_onnx(folder).read_bytes())
    with pytest.raises(InputError, match=rf"m\.onnx.*{said}"):
        build_engine(tmp_path / "m.onnx", tmp_path / "e.engine", BuildOptions())
    assert list(tmp_path.iterdir()) == [tmp_path / "m.onnx"]


def without_weights(path: Path, whole: bytes) -> None:
    model, place = onnx.load_from_string(whole), {"location": "weights.bin", "size_threshold": 16}
    onnx.save(model, path, save_as_external_data=True, **place)
    path.with_name("weights.bin").unlink()


@strongly_typed
@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("tiny_dynamic_0", r"tiny_dynamic_0\.onnx would be written over .*; rename --engine"),
        ("tiny_dynamic_0.onnx/e.engine", "cannot write"),
    ],
)
def test_a_place_that_cannot_take_the_engine_is_refused_before_the_build(
    tmp_path: Path, engine: str, said: str
) -> None:
    model, told = tiny_onnx(tmp_path), []
    before = model.read_bytes()
    with pytest.raises(InputError, match=said):
        build_engine(model, tmp_path / engine, BuildOptions(precision="fp16", explicit=True), told.append)
    assert told in ([], ["parsing"])
    assert model.read_bytes() == before and list(tmp_path.iterdir()) == [model]


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
    "given, said",
    [
        ({"precision": "fp8"}, "'fp8' is unknown; choose one of fp32, tf32"),
        ({"precision": "int8", "calibrator": "magic"}, "'magic' is unknown"),
        ({"precision": "int8", "calib_npy": "a", "calib_images": "b"}, "exclude each other"),
        ({"precision": "fp16", "calib_npy": "a"}, "does nothing to fp16"),
        ({"min_batch": 8, "max_batch": 4}, "1 <= min <= opt <= max"),
        ({"opt_batch": 9, "max_batch": 4}, "1 <= min <= opt <= max"),
        ({"max_batch": 10**12}, "input:1000000000000x3x32x32 has more than 2,147,483,647 elements"),
        ({"precision": "int8", "calib_cache": "other.cache"}, "belongs to another model: 1 of its 3"),
        ({"precision": "int8", "calib_images": "broken.images"}, r"12\.png"),
        ({"timing_cache": "garbage.cache"}, r"garbage\.cache is no timing cache"),
    ],
)
def test_wrong_options_and_broken_files_are_explained(folder: Path, tmp_path: Path, given: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        build_engine(tiny_onnx(folder), tmp_path / "e.engine", options(folder, **given))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", [{}, {"precision": "int8", "explicit": True, "calib_npy": "c.npy"}])
def test_a_build_that_fails_says_what_tensorrt_logs_and_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict
) -> None:
    def refuse(self: trt.Builder, network: object, config: object) -> None:
        LOG.log(trt.ILogger.Severity.ERROR, "10: could not find any implementation\nfor node x")

    monkeypatch.setattr(trt.Builder, "build_serialized_network", refuse)
    with pytest.raises(EngineError, match=r"as (fp32|int8): 10: could not find any implementation for node x"):
        build_engine(tiny_onnx(folder), tmp_path / "e.engine", options(folder, **given))
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(API >= 11, reason="TensorRT 11 builds everything explicitly")
@pytest.mark.parametrize("explicit, advice", [(True, "Ask"), (False, "Build with --explicit, ask")])
def test_a_strict_build_that_fails_leaves_no_cache_and_advises_what_was_not_done(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, explicit: bool, advice: str
) -> None:
    monkeypatch.setattr("trtlab.building.build.unquantised", lambda names, layers: "1 of 3 layers did not")
    with pytest.raises(EngineError, match=f"^1 of 3 layers did not; the engine is not kept. {advice} for what runs"):
        build_engine(tiny_onnx(folder), tmp_path / "e", options(folder, "int8", explicit=explicit, strict=True))
    assert not list(tmp_path.iterdir())
