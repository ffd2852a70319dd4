"""Precisions of single layers: asked for in the options, read back from the engine, and what they do to its outputs."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from helpers.engine.backend import ENGINE, trt
from helpers.engine.layers import engine_layers, layer_precision, ran_in
from tests.trtlab.tiny_models import images_npy, outlier_onnx
from trtcpu.errors import EngineError, InputError
from trtlab.building.build import BuildOptions, build_engine
from trtlab.building.layer_precisions import Constraints, check_ran
from trtlab.engines.inference import InferenceEngine

RECORDED = json.loads((Path(__file__).parents[2] / "fixtures/inspector_tensorrt_8_6.json").read_text())
INT8 = BuildOptions(precision="int8+fp16", opt_batch=4, max_batch=4)
HALF = "fp16" if ENGINE == "tensorrt" else trt.half_precision("FP16").lower()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose third convolution INT8 harms, with a calibration cache."""
    folder = tmp_path_factory.mktemp("mixed")
    options = dataclasses.replace(INT8, calib_npy=images_npy(folder / "c.npy"), calib_cache=folder / "c.cache")
    build_engine(outlier_onnx(folder / "m.onnx"), folder / "int8.engine", options)
    return folder


def built(folder: Path, path: Path, **options: object) -> tuple[dict[str, str], float]:
    """Return each convolution's precision in the engine, and the relative error against ONNX Runtime."""
    options = dataclasses.replace(INT8, calib_cache=folder / "c.cache", **options)
    build_engine(folder / "m.onnx", path, options)
    images = np.load(folder / "c.npy")
    expected = onnxruntime.InferenceSession(str(folder / "m.onnx")).run(None, {"input": images})[0]
    with InferenceEngine(path) as engine:
        found = engine.predict(images)
        layers = engine_layers(engine.engine)
    weighted = {layer["Name"].split("/")[1]: layer_precision(layer) for layer in layers if layer["Name"][:1] == "/"}
    return weighted, float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def test_a_kept_group_and_the_ends_run_in_half_precision_and_the_rest_in_int8(folder: Path, tmp_path: Path) -> None:
    plain, loss = built(folder, tmp_path / "a.engine")
    mixed, kept = built(folder, tmp_path / "b.engine", keep_fp16=("third",))
    assert {plain[name] for name in ("first", "second", "third", "fourth", "head")} == {"int8"}
    assert {mixed[name] for name in ("second", "fourth")} == {"int8"}
    assert {mixed[name] for name in ("first", "third", "head")} <= {HALF, "fp32"}
    assert kept < loss / 3


def test_the_record_says_what_was_asked_and_what_ran(folder: Path, tmp_path: Path) -> None:
    options = dataclasses.replace(INT8, calib_cache=folder / "c.cache", keep_fp16=("third",))
    found = build_engine(folder / "m.onnx", tmp_path / "e.engine", options).layer_constraints
    assert found["kept_groups"] == ["third"] and found["weighted_asked"] == {"fp16": 3}
    assert sum(found["weighted_ran"].values()) == 3 and set(found["weighted_ran"]) <= {HALF, "fp32"}


def test_layers_are_named_as_trtexec_names_them(folder: Path, tmp_path: Path) -> None:
    found, _ = built(folder, tmp_path / "e.engine", layer_precisions=("*Conv:fp32", "/f*/Conv:int8"))
    assert found["second"] == found["third"] == "fp32"
    assert found["first"] == found["fourth"] == "int8"


@pytest.mark.parametrize(
    "options, said",
    [
        ({"keep_fp16": ("fifth",)}, "no group 'fifth' in this network; its groups are first, second, third, fourth"),
        ({"keep_fp16": ("third",), "precision": "int8"}, "--keep-fp16 does nothing to int8; add --precision int8"),
        ({"layer_precisions": ("/third/Conv",)}, "takes NAME:PRECISION with fp32, fp16.*found '/third/Conv'"),
        ({"layer_precisions": ("/fifth/*:fp16",)}, "no layer '/fifth/.*its layers are /first/Conv"),
        ({"layer_precisions": ("*:bf16",)}, "needs bf16, which --precision int8.fp16 does not allow"),
        ({"precision_constraints": "hope"}, "'hope' are unknown; choose obey or prefer"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_leaves_nothing(
    folder: Path, tmp_path: Path, options: dict, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        build_engine(
            folder / "m.onnx",
            tmp_path / "e.engine",
            dataclasses.replace(INT8, **{"calib_cache": folder / "c.cache", **options}),
        )
    assert not list(tmp_path.iterdir())


def test_the_command_line_takes_groups_and_trtexec_s_spelling(trtlab, folder: Path, tmp_path: Path) -> None:
    common = ("build", "--onnx", folder / "m.onnx", "--engine", tmp_path / "e.engine", "--precision", "int8+fp16")
    common = (*common, "--calib-cache", folder / "c.cache", "--max-batch", 4)
    code, out, err = trtlab(*common, "--keep-fp16", "second,third")
    assert (code, err) == (0, "") and "4 fp16 asked" in out and "kept: second, third, first and last layer" in out
    code, out, err = trtlab(*common, "--layerPrecisions=/third/Conv:fp16", "--precisionConstraints=obey")
    assert (code, err) == (0, "") and "1 fp16 asked" in out
    code, _, err = trtlab(*common, "--keep-fp16", "stem")
    assert code == 2 and err.count("\n") == 1 and "its groups are first, second, third, fourth, head" in err


def test_the_layers_of_a_recorded_tensorrt_engine_are_found_by_name() -> None:
    names = ["/conv1/Conv", "/maxpool/MaxPool", "/layer1/layer1.0/downsample/downsample.0/Conv", "/fc/Gemm"]
    assert list(ran_in(RECORDED["int8"], names).values()) == ["int8", "int8", "int8", "other"]
    assert ran_in(RECORDED["fp16"], ["/conv1/Conv"]) == {"/conv1/Conv": "fp16"}


@pytest.mark.parametrize("rule, fails", [("obey", True), ("prefer", False)])
def test_a_kept_layer_that_ran_in_int8_is_an_error_where_the_rule_is_obey(rule: str, fails: bool) -> None:
    asked = Constraints({"/conv1/Conv": "fp16"}, frozenset({"/conv1/Conv"}), ("stem",), rule)
    check_ran(asked, RECORDED["fp16"])
    if fails:
        with pytest.raises(EngineError, match=r"1 of 1 layers .*/conv1/Conv \(fp16 asked, int8 ran\)"):
            check_ran(asked, RECORDED["int8"])
    else:
        check_ran(asked, RECORDED["int8"])
