"""Does a profile name the engine's layers, and do its times and shares add up?"""

import json
from pathlib import Path

import pytest

from helpers.engine.backend import DEVICE
from helpers.engine.layers import engine_layers
from tests.trtlab.tiny_models import tiny_onnx
from trtcpu.errors import InputError
from trtlab.building.build import BuildOptions, build_engine
from trtlab.engines.inference import InferenceEngine
from trtlab.profiling.profile import EngineProfile, profile_engine


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("profile")
    build_engine(tiny_onnx(folder), folder / "fp32.engine", BuildOptions())
    return folder / "fp32.engine"


@pytest.fixture(scope="module")
def profile(engine: Path) -> EngineProfile:
    return profile_engine(engine, iterations=10)


def test_every_layer_is_one_that_the_inspector_names(engine: Path, profile: EngineProfile) -> None:
    with InferenceEngine(engine) as loaded:
        known = {layer["Name"] for layer in engine_layers(loaded.engine)}
    assert {layer.name for layer in profile.layers} <= known
    assert any("Conv" in layer.name for layer in profile.layers)


def test_times_and_shares_add_up_and_the_slowest_comes_first(profile: EngineProfile) -> None:
    times = [layer.time_ms for layer in profile.layers]
    assert times == sorted(times, reverse=True)
    assert sum(times) == pytest.approx(profile.total_ms)
    assert sum(layer.share_percent for layer in profile.layers) == pytest.approx(100)


def test_convolutions_have_a_bound_and_never_beat_the_arithmetic_roof(profile: EngineProfile) -> None:
    convolutions = [layer for layer in profile.layers if "Conv" in layer.name and layer.flops]
    assert convolutions
    for layer in convolutions:
        assert layer.bound in ("compute", "memory") and layer.precision == "fp32"
        assert layer.flops / layer.time_ms / 1e6 <= profile.roofline.peak_gflops["fp32"] * (1 + 1e-9)
        assert layer.roof_percent > 0


def test_the_findings_are_as_many_as_asked_for_and_name_the_slowest(profile: EngineProfile) -> None:
    assert len(profile.findings(2)) == 2
    assert profile.findings(1)[0].startswith(profile.layers[0].name)


def test_the_device_is_named_and_the_profile_is_json(profile: EngineProfile) -> None:
    assert profile.device == DEVICE
    assert json.loads(json.dumps(profile.to_dict()))["roofline"]["bandwidth_gb_s"] > 0


def test_without_the_onnx_file_the_inspector_is_used(engine: Path, tmp_path: Path) -> None:
    lonely = tmp_path / "lonely.engine"
    lonely.write_bytes(engine.read_bytes())
    found = profile_engine(lonely, batch=2, iterations=2)
    assert found.batch == 2 and found.costs_from.startswith("the inspector")


def test_impossible_calls_are_refused(engine: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--iterations"):
        profile_engine(engine, iterations=0)
    with pytest.raises(InputError, match="batch"):
        profile_engine(engine, batch=10_000)
    with pytest.raises(InputError):
        profile_engine(tmp_path / "missing.engine")
