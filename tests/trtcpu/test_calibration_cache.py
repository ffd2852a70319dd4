"""The cache format, against caches that TensorRT 8.6 wrote."""

import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.fidelity import RECORDING
from trtcpu.calibration_cache import CalibrationCache, format_cache, parse_cache
from trtcpu.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
ENTROPY_2, MINMAX = "EntropyCalibration2", "MinMaxCalibration"
RECORDED = {
    "entropy2.cache": (ENTROPY_2, 127),
    "entropy1.cache": ("EntropyCalibration", 57),
    "minmax.cache": (MINMAX, 127),
}
names = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=40)
scales = st.floats(0, 2.0**100, width=32)


@pytest.mark.parametrize("file", sorted(RECORDED))
def test_recorded_cache_is_written_back_byte_for_byte_below_its_header(file: str) -> None:
    algorithm, count = RECORDED[file]
    recorded = (RECORDING / file).read_bytes()
    parsed = parse_cache(recorded)
    assert parsed.algorithm == algorithm and len(parsed.scales) == count
    assert parse_cache(recorded, algorithm) == parsed
    assert format_cache(parsed).splitlines()[1:] == recorded.splitlines()[1:]


def test_header_names_the_version_and_the_algorithm() -> None:
    assert format_cache(CalibrationCache(ENTROPY_2, {"x": 1.0})) == b"TRT-101600-EntropyCalibration2\nx: 3f800000\n"


@given(st.dictionaries(names, scales, min_size=1))
def test_any_scales_survive_the_format(values: dict[str, float]) -> None:
    assert parse_cache(format_cache(CalibrationCache(MINMAX, values))).scales == values


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda b: b"TRT-8600-MinMaxCalibration\n" + b))
def test_garbage_raises_nothing_but_a_clear_error(data: bytes) -> None:
    try:
        parse_cache(data, MINMAX)
    except InputError as error:
        assert "calibrat" in str(error)


@given(st.integers(0, 5860), st.integers(0, 255))
def test_recorded_cache_with_one_wrong_byte_is_read_or_refused_clearly(position: int, byte: int) -> None:
    data = bytearray((RECORDING / "entropy2.cache").read_bytes())
    data[position] = byte
    try:
        assert all(0 <= scale < float("inf") for scale in parse_cache(bytes(data), ENTROPY_2).scales.values())
    except InputError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("length", [0, 3, 20, 29, 60, 5000])
def test_cache_cut_inside_a_line_is_refused(length: int) -> None:
    cut = (RECORDING / "entropy2.cache").read_bytes()[:length]
    if re.search(rb"\n.+: [0-9a-f]{1,8}$", cut):  # a shortened number cannot be told from a small scale
        assert len(parse_cache(cut, ENTROPY_2).scales) > 0
    else:
        with pytest.raises(InputError, match="calibrat"):
            parse_cache(cut, ENTROPY_2)


def test_cache_of_another_algorithm_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="made by MinMaxCalibration, the calibrator's algorithm is Entropy"):
        parse_cache((RECORDING / "minmax.cache").read_bytes(), ENTROPY_2)


@pytest.mark.parametrize("header", ["TRT-7103-EntropyCalibration2", "TRT-101600-EntropyCalibration2\r"])
def test_caches_of_other_versions_and_line_ends_are_read(header: str) -> None:
    assert parse_cache(f"{header}\nx: 3f000000\r\ny: 1\n".encode(), ENTROPY_2).scales == {
        "x": 0.5,
        "y": struct.unpack(">f", b"\0\0\0\1")[0],
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [("x: 7fc00000", "nan"), ("x: ff800000", "-inf"), ("x: bf800000", "-1.0"), ("x", "instead"), ("x: 0x1", "instead")],
)
def test_lines_without_a_usable_scale_are_named(line: str, message: str) -> None:
    with pytest.raises(InputError, match=f"line 2 of the calibration cache.*{message}"):
        parse_cache(f"TRT-8600-MinMaxCalibration\n{line}\n".encode(), MINMAX)


def test_a_tensor_named_twice_is_refused() -> None:
    with pytest.raises(InputError, match="line 3 .* names 'x' again"):
        parse_cache(b"TRT-8600-MinMaxCalibration\nx: 3f800000\nx: 3f800000\n", MINMAX)


def test_tensor_names_with_line_breaks_cannot_be_written() -> None:
    with pytest.raises(InputError, match="line break"):
        format_cache(CalibrationCache(MINMAX, {"a\nb": 1.0}))


def test_reading_caches_needs_no_engine() -> None:
    code = "import sys, trtcpu.calibration_cache; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "trtcpu.calibration_cache" in loaded
    assert not loaded & {"numpy", "onnx", "openvino", "tensorrt", "helpers.engine.backend", "trtcpu.tensorrt"}
