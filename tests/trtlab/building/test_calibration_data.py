"""Calibration batches and cache files: good ones, and every kind of bad one."""

import struct
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trtlab.tiny_models import SIZE, image_folder, images_npy
from trtcpu.errors import InputError, LabError
from trtlab.building.calibration_data import (
    image_batches,
    open_inputs,
    read_cache,
    tensor_batches,
    write_calibration_tensor,
)
from trtlab.engines.tensors import InputSpec
from trtlab.images.preprocessing import Preprocessing, load_batch

SHAPE = (3, SIZE, SIZE)
TINY = Preprocessing.usual(3, SIZE, SIZE)


def _spec(shape: tuple[int, ...]) -> InputSpec:
    return InputSpec("input", np.dtype(np.float32), (1, *shape), (1, *shape), (9, *shape))


def _npy_batches(path: Path, shape: tuple[int, ...], fixed: int | None) -> SimpleNamespace:
    found = tensor_batches(path, {"input": _spec(shape)}, fixed)
    rows = (batch["input"] for batch in found)
    return SimpleNamespace(batch_size=found.batch_size, rows=rows)


def _open_tensor(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    return open_inputs(path, {"input": _spec(shape)})["input"]


def test_a_folder_gives_preprocessed_batches(tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "images", 16)
    found = image_batches(folder, TINY, "input", None)
    batches = list(found)
    assert found.number == len(batches) == 2 and found.batch_size == 8
    np.testing.assert_array_equal(batches[1]["input"], load_batch(sorted(folder.iterdir())[8:], SIZE))


@pytest.mark.parametrize("number, batch", [(2, 2), (7, 7), (12, 6), (13, 1), (20, 5), (64, 8), (100, 5)])
def test_the_batch_is_the_one_that_uses_every_image(tmp_path: Path, number: int, batch: int) -> None:
    assert _npy_batches(images_npy(tmp_path / "t.npy", number), SHAPE, None).batch_size == batch


def test_a_tensor_gives_its_rows_in_order(tmp_path: Path) -> None:
    path = images_npy(tmp_path / "t.npy", 12)
    batches = list(_npy_batches(path, SHAPE, 4).rows)
    np.testing.assert_array_equal(np.concatenate(batches), np.load(path))
    assert all(batch.dtype == np.float32 and batch.flags.c_contiguous for batch in batches)


def test_the_batch_of_a_fixed_model_is_kept_and_an_incomplete_last_batch_dropped(tmp_path: Path) -> None:
    assert [len(batch) for batch in _npy_batches(images_npy(tmp_path / "t.npy", 11), SHAPE, 4).rows] == [4, 4]


@pytest.mark.parametrize("number, fixed", [(1, None), (1, 1), (3, 4)])
def test_too_few_images_are_an_error_that_counts_them(tmp_path: Path, number: int, fixed: int | None) -> None:
    with pytest.raises(InputError, match=f"at least .* has {number}"):
        _npy_batches(images_npy(tmp_path / "t.npy", number), SHAPE, fixed)
    with pytest.raises(InputError, match=f"at least .* has {number}"):
        image_batches(image_folder(tmp_path / "images", number), TINY, "input", fixed)


def test_a_count_takes_images_spread_over_the_whole_folder(tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "images", 9)
    batches = list(image_batches(folder, TINY, "input", None, count=3))
    paths = sorted(folder.iterdir())
    expected = load_batch([paths[0], paths[4], paths[8]], SIZE)
    np.testing.assert_array_equal(np.concatenate([batch["input"] for batch in batches]), expected)
    for count in (0, 10):
        with pytest.raises(InputError, match=f"--calib-count {count} of the 9 images"):
            image_batches(folder, TINY, "input", None, count=count)


def test_calibrating_with_more_images_takes_no_more_memory(tmp_path: Path) -> None:
    larger, peaks = Preprocessing.usual(3, 128, 128), []
    for number in (16, 80):  # two batches are alive at a time
        folder = image_folder(tmp_path / str(number), number)
        tracemalloc.start()
        assert sum(len(batch["input"]) for batch in image_batches(folder, larger, "input", None)) == number
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_an_empty_folder_and_a_missing_one_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no images"):
        image_batches(tmp_path, TINY, "input", None)
    with pytest.raises(InputError, match="is not a folder"):
        image_batches(tmp_path / "nowhere", TINY, "input", None)


def test_an_unreadable_image_raises_when_its_batch_is_asked_for(tmp_path: Path) -> None:
    folder = image_folder(tmp_path / "images", 9)
    (folder / "03.png").write_bytes(b"broken")
    with pytest.raises(InputError, match=r"03\.png"):
        list(image_batches(folder, TINY, "input", None))


def test_nan_in_a_tensor_is_an_error(tmp_path: Path) -> None:
    tensor = np.zeros((4, *SHAPE), np.float32)
    tensor[3, 0, 0, 0] = np.nan
    np.save(tmp_path / "t.npy", tensor)
    with pytest.raises(InputError, match="NaN"):
        list(_npy_batches(tmp_path / "t.npy", SHAPE, None).rows)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"\x93NUMPY\x01\x00",
        b"\x93NUMPY\x01\x00\x10\x00{'descr': __import",
        b"PK\x05\x06" + b"\0" * 18,
        b"\x80\x04K\x01.",
    ],
)
def test_a_file_that_is_no_tensor_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.npy").write_bytes(content)
    with pytest.raises(InputError, match=r"t\.npy"):
        _open_tensor(tmp_path / "t.npy", SHAPE)


def test_a_truncated_tensor_is_an_error(tmp_path: Path) -> None:
    path = images_npy(tmp_path / "t.npy", 4)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(InputError, match=r"t\.npy"):
        _open_tensor(path, SHAPE)


@pytest.mark.parametrize("tensor", [np.zeros((4, 3, 8, 8), np.float32), np.zeros((4, *SHAPE), np.uint8), np.zeros(3)])
def test_a_tensor_of_another_shape_or_type_is_an_error_with_both(tmp_path: Path, tensor: np.ndarray) -> None:
    np.save(tmp_path / "t.npy", tensor)
    with pytest.raises(InputError, match=r"holds .* needed is float32 \[n, 3, 32, 32\]"):
        _open_tensor(tmp_path / "t.npy", SHAPE)


@given(content=st.binary(max_size=300))
def test_no_bytes_crash_the_tensor_reader(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("npy") / "t.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + content)
    with pytest.raises(LabError):
        _open_tensor(path, SHAPE)


def test_a_written_tensor_is_what_numpy_loads(tmp_path: Path) -> None:
    paths = sorted(image_folder(tmp_path / "images", 7).iterdir())
    done = list(write_calibration_tensor(paths, tmp_path / "out.npy", preprocessing=TINY, batch=3))
    found = np.load(tmp_path / "out.npy")
    assert done == [3, 6, 7] and found.dtype == np.float32
    np.testing.assert_array_equal(found, load_batch(paths, SIZE))


def test_writing_a_tensor_takes_no_more_memory_for_more_images(tmp_path: Path) -> None:
    paths = sorted(image_folder(tmp_path / "images", 4).iterdir())
    peaks = []
    for repeat in (2, 20):
        tracemalloc.start()
        list(
            write_calibration_tensor(
                paths * repeat, tmp_path / "out.npy", preprocessing=Preprocessing.usual(3, 128, 128), batch=4
            )
        )
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_an_interrupted_or_failed_write_leaves_nothing(tmp_path: Path) -> None:
    paths = sorted(image_folder(tmp_path / "images", 7).iterdir())
    writer = write_calibration_tensor(paths, tmp_path / "out" / "out.npy", preprocessing=TINY, batch=3)
    next(writer)
    writer.close()
    paths[5].write_bytes(b"broken")
    with pytest.raises(InputError, match=r"05\.png"):
        list(write_calibration_tensor(paths, tmp_path / "out" / "out.npy", preprocessing=TINY, batch=3))
    assert not (tmp_path / "out").exists()


def _cache(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "algorithm, kind",
    [
        ("EntropyCalibration2", "entropy"),
        ("EntropyCalibration", "entropy1"),
        ("MinMaxCalibration", "minmax"),
        ("LegacyCalibration", "percentile"),
    ],
)
def test_a_cache_of_tensorrt_is_read(tmp_path: Path, algorithm: str, kind: str) -> None:
    lines = f"TRT-8600-{algorithm}\ninput: 3caa54fc\n/layer1/layer1.0/Relu_output_0: 3d05a3f6\n"
    cache = read_cache(_cache(tmp_path / "c.cache", lines))
    expected = struct.unpack(">ff", bytes.fromhex("3caa54fc3d05a3f6"))
    assert cache.kind == kind and tuple(cache.scales.values()) == expected
    assert cache.data == lines.encode()


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "c.cache: the calibration cache begins with ''"),
        ("garbage", "begins with 'garbage'"),
        ("TRT-8600-EntropyCalibration2\n", "holds no scales"),
        ("TRT-8600-EntropyCalibration2\ninput 3caa54fc\n", "line 2 of the calibration cache is 'input 3caa54fc'"),
        ("TRT-8600-EntropyCalibration2\ninput: 3caa5\nrelu: 3caa5zzz\n", "line 3 .* is 'relu: 3caa5zzz'"),
        ("TRT-8600-EntropyCalibration2\ninput: 7fc00000\n", "gives 'input' the scale nan"),
        ("TRT-8600-EntropyCalibration2\ninput: bcaa54fc\n", "gives 'input' the scale -0.02"),
    ],
)
def test_a_bad_cache_is_an_error_that_says_where(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_cache(_cache(tmp_path / "c.cache", text))


def test_a_missing_cache_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the calibration cache"):
        read_cache(tmp_path / "none.cache")


def test_a_cache_of_another_model_says_how_little_matches(tmp_path: Path) -> None:
    lines = ["TRT-8600-MinMaxCalibration", *(f"{name}: 3caa54fc" for name in ("input", "a", "b"))]
    cache = read_cache(_cache(tmp_path / "c.cache", "\n".join(lines)))
    with pytest.raises(InputError, match="belongs to another model: 1 of its 3 tensors"):
        cache.check_fits(["input"], {"input", "x", "y"})
    with pytest.raises(InputError, match="another model"):
        cache.check_fits(["data"], {"data", "a", "b"})
    cache.check_fits(["input"], {"input", "a", "b", "c"})


@given(content=st.binary(max_size=200), header=st.booleans())
def test_no_bytes_crash_the_cache_reader(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, header: bool
) -> None:
    path = tmp_path_factory.mktemp("cache") / "c.cache"
    path.write_bytes((b"TRT-8600-EntropyCalibration2\ninput: 3caa54fc\n" if header else b"") + content)
    try:
        cache = read_cache(path)
    except LabError as error:
        assert str(path) in str(error)
    else:
        assert all(np.isfinite(scale) and scale >= 0 for scale in cache.scales.values())
