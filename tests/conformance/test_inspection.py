"""Engine inspector, profiler and timing cache."""

import json
import time

import numpy as np
import pytest

from helpers.engine.backend import trt
from tests.conformance import models
from tests.conformance.support import LOG, VERSION, Buffers, build, inspect, load, parsed, relative_error, run

X = np.random.default_rng(0).standard_normal((4, 3, 16, 16)).astype(np.float32)


@pytest.fixture(scope="module")
def plan() -> bytes:
    return build(models.residual(4))


class Times(trt.IProfiler):
    """Keep every report."""

    def __init__(self) -> None:
        trt.IProfiler.__init__(self)
        self.reports: list[tuple[str, float]] = []

    def report_layer_time(self, layer_name: str, ms: float) -> None:
        self.reports.append((layer_name, ms))


def test_inspector_gives_layers_and_bindings(plan: bytes) -> None:
    found = inspect(plan)
    names = [one["Name"] for one in found["I/O Tensors"]] if VERSION >= (11,) else found["Bindings"]
    assert names == ["x", "y"]
    assert all({"Name", "LayerType", "Inputs", "Outputs", "Metadata"} <= set(layer) for layer in found["Layers"])
    assert any("TacticName" in layer for layer in found["Layers"])
    assert load(plan).num_layers == len(found["Layers"])


def test_fused_nodes_are_joined_by_a_plus(plan: bytes) -> None:
    names = [layer["Name"] for layer in inspect(plan)["Layers"]]
    stem = next(name for name in names if "stem" in name.split(" + ")[0].split("]")[-1].split())
    assert stem.endswith("stem + stem_relu")


def test_residual_add_is_fused_into_its_convolution(plan: bytes) -> None:
    """TensorRT may leave the add as an elementwise layer of its own at optimisation level 0."""
    names = [layer["Name"] for layer in inspect(plan)["Layers"]]
    assert any("add" in name.split(" + ") or name.startswith("PWN(") for name in names)


def test_layers_state_the_tensors_between_them(plan: bytes) -> None:
    layers = inspect(plan)["Layers"]
    made = {tensor["Name"] for layer in layers for tensor in layer["Outputs"]} | {"x"}
    assert "y" in made
    assert all(tensor["Name"] in made for layer in layers for tensor in layer["Inputs"])


def test_one_layer_can_be_asked_for(plan: bytes) -> None:
    engine = load(plan)
    inspector = engine.create_engine_inspector()
    layer = json.loads(inspector.get_layer_information(0, trt.LayerInformationFormat.JSON), strict=False)
    assert layer["Name"] == inspect(plan)["Layers"][0]["Name"]


def test_oneline_format_is_text_with_the_names(plan: bytes) -> None:
    text = load(plan).create_engine_inspector().get_engine_information(trt.LayerInformationFormat.ONELINE)
    assert "stem" in text


def test_names_only_verbosity_gives_names() -> None:
    layers = inspect(build(models.residual(4), verbosity="LAYER_NAMES_ONLY"))["Layers"]
    assert all(isinstance(layer, str) for layer in layers) and any("stem" in layer for layer in layers)


def test_profiler_reports_each_layer_of_one_run(plan: bytes) -> None:
    buffers, times = Buffers(load(plan)), Times()
    buffers.context.profiler = times
    buffers.upload({"x": X})
    assert buffers.execute()
    assert len(times.reports) >= 3
    assert all(ms >= 0 for _, ms in times.reports) and sum(ms for _, ms in times.reports) > 0
    assert any("stem" in name for name, _ in times.reports)


def test_profiled_run_gives_the_right_result(plan: bytes) -> None:
    buffers = Buffers(load(plan))
    buffers.context.profiler = Times()
    buffers.upload({"x": X})
    assert buffers.execute()
    assert relative_error(buffers.fetch(), models.reference(models.residual(), x=X)) < 1e-5


def test_profiler_waits_for_report_when_enqueue_must_not_emit(plan: bytes) -> None:
    buffers, times = Buffers(load(plan)), Times()
    buffers.context.profiler = times
    assert buffers.context.enqueue_emits_profile is True
    buffers.context.enqueue_emits_profile = False
    buffers.upload({"x": X})
    assert buffers.execute() and times.reports == []
    assert buffers.context.report_to_profiler() is True
    assert len(times.reports) >= 3


def test_layers_times_are_below_the_runs_wall_time(plan: bytes) -> None:
    buffers, times = Buffers(load(plan)), Times()
    buffers.context.profiler = times
    buffers.upload({"x": X})
    start = time.perf_counter()
    buffers.execute()
    times.reports.clear()
    buffers.execute()  # an engine may report its runs' average: both runs are on the clock
    assert sum(ms for _, ms in times.reports) <= (time.perf_counter() - start) * 1e3


def test_default_profiler_prints_layers(plan: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    buffers = Buffers(load(plan))
    buffers.context.profiler = trt.Profiler()
    buffers.upload({"x": X})
    buffers.execute()
    printed = capfd.readouterr()
    assert "stem" in printed.out + printed.err


def build_with_cache(data: bytes) -> tuple[bytes, bytes]:
    """Build the residual network with a timing cache of its own; return the plan and the cache's bytes."""
    builder, network, parser = parsed(models.residual(4))
    config = builder.create_builder_config()
    cache = config.create_timing_cache(data)
    assert config.set_timing_cache(cache, False) is True
    plan = builder.build_serialized_network(network, config)
    return bytes(plan), bytes(config.get_timing_cache().serialize())


def test_timing_cache_is_filled_by_a_build_and_used_by_the_next() -> None:
    config = trt.Builder(LOG).create_builder_config()
    empty = bytes(config.create_timing_cache(b"").serialize())
    _, filled = build_with_cache(b"")
    plan, again = build_with_cache(filled)
    assert len(filled) > len(empty) and len(again) == len(filled)
    assert relative_error(run(plan, x=X), models.reference(models.residual(), x=X)) < 5e-3


def test_timing_caches_combine() -> None:
    _, filled = build_with_cache(b"")
    config = trt.Builder(LOG).create_builder_config()
    ours, theirs = config.create_timing_cache(b""), config.create_timing_cache(filled)
    if VERSION < (
        10,
    ):  # 8.6.0 refuses every combination, a cache with itself too: "The timing cache will not be used!"
        assert ours.combine(theirs, True) is False
        return
    assert ours.combine(theirs, False) is True
    assert len(bytes(ours.serialize())) >= len(filled) * 0.9


def test_timing_cache_is_emptied_by_reset() -> None:
    config = trt.Builder(LOG).create_builder_config()
    cache = config.create_timing_cache(build_with_cache(b"")[1])
    full = len(bytes(cache.serialize()))
    assert cache.reset() is True and len(bytes(cache.serialize())) < full
