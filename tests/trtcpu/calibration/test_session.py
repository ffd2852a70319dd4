"""The calibration protocol: the order of calls, what ends it, what is refused, and the scales that come out."""

from typing import Any
from unittest import mock

import numpy as np
import onnx
import pytest

from tests.trtcpu.calibration.models import classifier, reshaping, runner
from trtcpu import cuda
from trtcpu import tensorrt as trt
from trtcpu.api.enums import CalibrationAlgoType
from trtcpu.api.logger import ILogger, Severity
from trtcpu.calibration import batches, probe, session
from trtcpu.calibration import calibrators as calib
from trtcpu.calibration.batches import part_size
from trtcpu.calibration.tensors import CalibratedTensor, CalibrationPlan, calibration_plan
from trtcpu.calibration_cache import CalibrationCache, format_cache, parse_cache
from trtcpu.device import memory
from trtcpu.errors import EngineError, InputError

SHAPE = (4, 3, 8, 8)
BATCHES = [np.random.default_rng(i).standard_normal(SHAPE).astype(np.float32) * (1 + i) for i in range(3)]
BASES = {
    "entropy2": calib.IInt8EntropyCalibrator2,
    "entropy": calib.IInt8EntropyCalibrator,
    "minmax": calib.IInt8MinMaxCalibrator,
    "legacy": calib.IInt8LegacyCalibrator,
}


class Log(ILogger):
    """Keep the messages of each severity."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[tuple[Severity, str]] = []

    def log(self, severity: Severity, msg: str) -> None:
        self.messages.append((severity, msg))

    def texts(self, severity: Severity) -> str:
        return "\n".join(text for level, text in self.messages if level == severity)


class Recording:
    """Calibrator methods that write down their calls."""

    def __init__(self, batches: list[np.ndarray] = BATCHES, cache: bytes | None = None, batch_size: int = 4) -> None:
        super().__init__()
        self.batches, self.cache, self.batch_size = list(batches), cache, batch_size
        self.calls: list[Any] = []
        self.written: Any = None
        self.memory = cuda.mem_alloc(max((batch.nbytes for batch in batches), default=4))

    def get_batch_size(self) -> int:
        self.calls.append("get_batch_size")
        return self.batch_size

    def get_batch(self, names: list[str]) -> Any:
        self.calls.append(("get_batch", tuple(names)))
        if not self.batches:
            return None
        cuda.memcpy_htod(self.memory, self.batches.pop(0))
        return [int(self.memory)]

    def read_calibration_cache(self) -> bytes | None:
        self.calls.append("read")
        return self.cache

    def write_calibration_cache(self, cache: Any) -> None:
        self.calls.append("write")
        self.written = cache

    def get_quantile(self) -> float:
        return 1.0

    def get_regression_cutoff(self) -> float:
        return 1.0


def recording(kind: str = "entropy2", **members: Any) -> type:
    return type("Recording", (Recording, BASES[kind]), members)


def calibrate(
    calibrator: Any, model: onnx.ModelProto | None = None, shape: tuple[int, ...] = SHAPE
) -> tuple[dict[str, float] | None, Log, list[int]]:
    """Return (scales, log, sizes of the batches that ran)."""
    model, log, sizes = model or classifier(), Log(), []
    plan = calibration_plan(model, calibrator.get_algorithm())
    run = runner(model, plan.observed, sizes)
    return session.calibrate(calibrator, plan, {"x": (shape, np.float32)}, run, log), log, sizes


def test_methods_are_called_in_tensorrts_order() -> None:
    calibrator = recording()()
    scales, log, _ = calibrate(calibrator)
    assert calibrator.calls == ["get_batch_size", "read", *[("get_batch", ("x",))] * 4, "read", "write"]
    assert isinstance(calibrator.written, memoryview)
    assert parse_cache(calibrator.written) == CalibrationCache("EntropyCalibration2", scales)
    assert not log.texts(Severity.WARNING) and not log.texts(Severity.ERROR)
    assert "Starting Calibration." in log.texts(Severity.INFO)


def test_minmax_scales_are_the_largest_magnitudes_that_onnx_runtime_sees() -> None:
    scales, _, _ = calibrate(recording("minmax")())
    run = runner(classifier(), ["conv", "relu", "pool", "flat", "y"], [])
    tensors = [{"x": batch, **run({"x": batch})} for batch in BATCHES]
    for name in tensors[0]:
        assert scales[name] == pytest.approx(max(np.abs(t[name]).max() for t in tensors) / 127, rel=1e-5)
    assert scales["(Unnamed Layer* 11) [Constant]_output"] == scales["(Unnamed Layer* 12) [Shuffle]_output"]


def test_legacy_with_quantile_one_gives_the_largest_magnitudes() -> None:
    minmax, _, _ = calibrate(recording("minmax")())
    legacy, _, _ = calibrate(recording("legacy")())
    assert legacy == pytest.approx({name: minmax[name] for name in legacy}, rel=1e-5)


@pytest.mark.parametrize("quantile", [0, 1.5, "much"])
def test_legacy_quantile_out_of_range_is_refused(quantile: Any) -> None:
    scales, log, _ = calibrate(recording("legacy", get_quantile=lambda self: quantile)())
    assert scales is None and "get_quantile()" in log.texts(Severity.ERROR)


@pytest.mark.parametrize("kind", ["entropy2", "entropy", "minmax"])
def test_splitting_a_batch_does_not_change_the_scales(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _, sizes = calibrate(recording(kind)())
    assert sizes == [4, 4, 4]
    monkeypatch.setattr(batches, "part_size", lambda batch, bytes_per_image: 1)
    parts, _, sizes = calibrate(recording(kind)())
    assert parts == whole
    assert sizes == [1] * (12 if kind == "minmax" else 16)  # a histogram's range needs the first batch twice


def test_a_batch_is_not_split_where_a_tensor_mixes_its_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "part_size", lambda batch, bytes_per_image: 1)
    scales, _, sizes = calibrate(recording("minmax")(), reshaping())
    assert sizes == [4, 4, 4]
    softmax = [np.exp(b.reshape(-1, 8)) / np.exp(b.reshape(-1, 8)).sum(0) for b in BATCHES]
    assert scales["s"] == pytest.approx(max(s.max() for s in softmax) / 127, rel=1e-5)


def test_a_fixed_batch_runs_whole() -> None:
    _, _, sizes = calibrate(recording()(), classifier(4))
    assert sizes == [4, 4, 4]


@pytest.mark.parametrize(
    ("batch", "image_bytes", "part"),
    [(8, 15 << 20, 4), (8, 1, 8), (13, 15 << 20, 1), (1, 1 << 40, 1), (12, 20 << 20, 3)],
)
def test_parts_divide_the_batch_and_fit_in_memory(batch: int, image_bytes: int, part: int) -> None:
    assert part_size(batch, image_bytes, limit=64 << 20) == part


def test_valid_cache_skips_all_batches() -> None:
    scales, _, _ = calibrate(recording()())
    cached = recording()(cache=format_cache(CalibrationCache("EntropyCalibration2", scales)))
    again, log, sizes = calibrate(cached)
    assert again == scales and sizes == []
    assert cached.calls == ["get_batch_size", "read"]
    assert not log.texts(Severity.WARNING)


def test_cache_that_misses_tensors_is_used_with_a_warning() -> None:
    scales, log, _ = calibrate(recording()(cache=b"TRT-8600-EntropyCalibration2\nx: 3f800000\nrelu: 3f000000\n"))
    assert scales == {"x": 1.0, "relu": 0.5}
    assert "no scale for 4 of 6 tensors, which stay in higher precision: conv, pool, flat, y" in log.texts(
        Severity.WARNING
    )


def test_coverage_names_what_is_missing_and_refuses_another_network() -> None:
    assert session.check_coverage({"x": 1.0, "y": 1.0}, ["x"]) is None
    assert "1 of 2 tensors, which stay in higher precision: y" in session.check_coverage({"x": 1.0}, ["x", "y"])
    with pytest.raises(InputError, match="of another network: it names 'a'…, this network has 'x', 'y'…"):
        session.check_coverage({"a": 1.0}, ["x", "y"])


@pytest.mark.parametrize(
    ("cache", "reason"),
    [
        (b"garbage", "begins with 'garbage'"),
        (b"TRT-8600-EntropyCalibration2\nother: 3f800000\n", "of another network"),
        (b"TRT-8600-MinMaxCalibration\nx: 3f800000\n", "made by MinMaxCalibration"),
    ],
)
def test_useless_cache_fails_calibration_and_says_why(cache: bytes, reason: str) -> None:
    scales, log, sizes = calibrate(recording()(cache=cache))
    assert scales is None and sizes == []
    assert reason in log.texts(Severity.ERROR) and "\n" not in log.texts(Severity.ERROR)


@pytest.mark.parametrize("end", [None, []])
def test_no_batch_and_no_cache_is_a_failure(end: Any) -> None:
    scales, log, _ = calibrate(recording(get_batch=lambda self, names: end)())
    assert scales is None and "no scaling factors detected" in log.texts(Severity.ERROR)


def test_exception_in_get_batch_is_printed_and_the_batches_so_far_count(capfd: pytest.CaptureFixture[str]) -> None:
    def failing(self: Any, names: list[str]) -> Any:
        if len(self.batches) == 1:
            raise OSError("disk is gone")
        return Recording.get_batch(self, names)

    broken = recording(get_batch=failing)()
    scales, _, _ = calibrate(broken)
    assert "[ERROR] Exception caught in get_batch(): OSError: disk is gone" in capfd.readouterr().err
    assert scales == calibrate(recording()(batches=BATCHES[:2]))[0]
    assert bytes(broken.written).startswith(b"TRT-")


@pytest.mark.parametrize("method", ["read_calibration_cache", "write_calibration_cache", "get_batch_size"])
def test_exceptions_elsewhere_are_printed_and_calibration_goes_on(
    method: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def failing(self: Any, *arguments: Any) -> None:
        raise ValueError("not today")

    scales, _, _ = calibrate(recording(**{method: failing})())
    assert scales == calibrate(recording()())[0]
    assert f"Exception caught in {method}(): ValueError: not today" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ([np.zeros(3, np.float32)], "list with a ndarray"),
        (np.zeros(SHAPE, np.float32), "list with a ndarray"),
        ([1.5], "list with a float"),
        ("address", "returned str"),
        (5, "returned int"),
    ],
)
def test_what_tensorrt_cannot_cast_to_addresses_ends_calibration(
    result: Any, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    scales, _, _ = calibrate(recording(get_batch=lambda self, names: result)())
    assert scales is None and message in capfd.readouterr().err


def test_addresses_may_be_device_allocations_in_a_tuple() -> None:
    """TensorRT's bindings cast each item to size_t, which calls its __int__."""

    def get_batch(self: Any, names: list[str]) -> Any:
        return (self.memory,) if Recording.get_batch(self, names) else None

    assert calibrate(recording(get_batch=get_batch)())[0] == calibrate(recording()())[0]


def test_batch_size_unlike_the_profile_is_a_warning() -> None:
    scales, log, _ = calibrate(recording()(batch_size=64))
    assert scales and "get_batch_size() gives 64" in log.texts(Severity.WARNING)


def test_reading_past_the_allocation_is_an_error() -> None:
    scales, log, _ = calibrate(recording()(), shape=(8, 3, 8, 8))
    assert scales is None
    assert "input 'x' of OPT shape (8, 3, 8, 8) a bad address" in log.texts(Severity.ERROR)


def test_an_unknown_address_is_an_error() -> None:
    scales, log, _ = calibrate(recording(get_batch=lambda self, names: [4096])())
    assert scales is None and "no device memory" in log.texts(Severity.ERROR)


def test_values_that_are_not_finite_fail_calibration_with_the_tensors_name() -> None:
    scales, log, _ = calibrate(recording()(batches=[np.full(SHAPE, np.nan, np.float32)]))
    assert scales is None and "has infinite or NaN values" in log.texts(Severity.ERROR)


@pytest.mark.parametrize("kind", BASES)
def test_a_masks_infinities_count_as_zeros_and_a_nan_behind_it_is_still_found(kind: str) -> None:
    masked = CalibratedTensor("scores", "scores", masked=True)
    plan = CalibrationPlan(recording(kind)().get_algorithm(), (masked,), ("scores",), frozenset(), None)
    scores = np.array([[1, -2, -np.inf, np.finfo(np.float32).min]], np.float32)
    statistics, _ = batches.observe_batches([{"x": scores}], plan, lambda feeds: {"scores": feeds["x"]})
    assert statistics.largest("scores") == 2
    with pytest.raises(EngineError, match="'scores' has infinite or NaN"):
        batches.observe_batches([{"x": scores + np.nan}], plan, lambda feeds: {"scores": feeds["x"]})


def test_a_calibrator_that_skips_its_bases_init_is_named() -> None:
    class Hasty(calib.IInt8EntropyCalibrator2):
        def __init__(self) -> None:
            pass

    with pytest.raises(TypeError, match=r"IInt8EntropyCalibrator2.__init__\(\) must be called .* in Hasty.__init__"):
        Hasty()


def test_a_calibrator_of_ones_own_algorithm_can_derive_from_the_base() -> None:
    def get_algorithm(self: Any) -> CalibrationAlgoType:
        return CalibrationAlgoType.MINMAX_CALIBRATION

    own = type("Own", (Recording, calib.IInt8Calibrator), {"get_algorithm": get_algorithm})
    assert calibrate(own())[0] == calibrate(recording("minmax")())[0]


def test_device_memory_is_free_again_after_calibration() -> None:
    before = memory.allocated_bytes()
    calibrator = recording()()
    calibrate(calibrator)
    calibrator.memory.free()
    assert memory.allocated_bytes() == before


def test_a_build_plans_its_calibration_once() -> None:
    log = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(log)
    network = builder.create_network()
    assert trt.OnnxParser(network, log).parse(classifier(4).SerializeToString())
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.INT8)
    config.int8_calibrator = recording()()
    with mock.patch.object(onnx.shape_inference, "infer_shapes", wraps=onnx.shape_inference.infer_shapes) as infer:
        assert builder.build_serialized_network(network, config)
    assert infer.call_count == 2  # for the calibration's plan, and for the shapes of the outputs


@pytest.mark.parametrize("algorithm", ["ENTROPY_CALIBRATION_2", "MINMAX_CALIBRATION"])
def test_batches_that_may_only_be_read_are_counted_as_others(algorithm: str) -> None:
    """As those of a mapped file are."""
    model = classifier()
    plan = calibration_plan(model, CalibrationAlgoType.__members__[algorithm])
    fixed = [{"x": np.frombuffer(batch.tobytes(), np.float32).reshape(SHAPE)} for batch in BATCHES]
    found, number = batches.observe_batches(fixed, plan, probe.runner(model, plan))
    assert number == len(BATCHES)
    assert found.largest("x") == max(np.abs(batch).max() for batch in BATCHES)
