"""Calibration batches and cache files: good ones, and every kind of bad one."""

import tracemalloc
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.trtlab.tiny_models import SIZE, image_folder, images_npy
from trtcpu.errors import InputError
from trtlab.building.calibration_data import (
    CalibrationBatches,
    image_batches,
    open_inputs,
    read_cache,
    tensor_batches,
    write_calibration_tensor,
)
from trtlab.engines.tensors import InputSpec
from trtlab.images.preprocessing import Preprocessing, load_batch

SHAPE = (3, SIZE, SIZE)
INPUTS = {"input": InputSpec("input", np.dtype(np.float32), (1, *SHAPE), (1, *SHAPE), (9, *SHAPE))}
TINY, LARGER = Preprocessing.usual(*SHAPE), Preprocessing.usual(3, 128, 128)


def _whole(batches: CalibrationBatches) -> np.ndarray:
    return np.concatenate([batch["input"] for batch in batches.told(print)])


def _peak(work: Iterable) -> int:
    """Return the most bytes that are allocated while `work` is gone through."""
    tracemalloc.start()
    for _ in work:
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize(
    "number, fixed, batch",
    [(2, None, 2), (7, None, 7), (12, None, 6), (13, None, 1), (64, None, 8), (100, None, 5), (11, 4, 4)],
)
def test_a_tensor_gives_its_rows_in_batches_that_use_every_one_or_in_the_models_fixed_batch(
    tmp_path: Path, number: int, fixed: int | None, batch: int
) -> None:
    path = images_npy(tmp_path / "t.npy", number)
    found = tensor_batches(path, INPUTS, fixed)
    assert found.batch_size == batch
    np.testing.assert_array_equal(_whole(found), np.load(path)[: number // batch * batch], strict=True)


@pytest.mark.parametrize("number, fixed", [(1, None), (1, 1), (3, 4)])
def test_too_few_images_are_an_error_that_counts_them(tmp_path: Path, number: int, fixed: int | None) -> None:
    with pytest.raises(InputError, match=f"at least .* has {number}"):
        tensor_batches(images_npy(tmp_path / "t.npy", number), INPUTS, fixed)
    with pytest.raises(InputError, match=f"at least .* has {number}"):
        image_batches(image_folder(tmp_path / "images", number), TINY, "input", fixed)


@pytest.mark.parametrize("count, taken", [(None, range(9)), (3, (0, 4, 8))])
def test_a_count_takes_images_spread_over_the_whole_folder(tmp_path: Path, count: int | None, taken: range) -> None:
    folder = image_folder(tmp_path / "images", 9)
    paths = sorted(folder.iterdir())
    np.testing.assert_array_equal(
        _whole(image_batches(folder, TINY, "input", None, count)), load_batch([paths[i] for i in taken], SIZE)
    )
    with pytest.raises(InputError, match="--calib-count 10 of the 9 images"):
        image_batches(folder, TINY, "input", None, 10)


def test_more_images_take_no_more_memory(tmp_path: Path) -> None:
    folders = [image_folder(tmp_path / str(number), number) for number in (16, 80)]
    # two batches are alive at a time
    few, many = (_peak(image_batches(folder, LARGER, "input", None).told(str)) for folder in folders)
    paths, how = sorted(folders[0].iterdir()), {"preprocessing": LARGER, "batch": 4}
    short, long = (_peak(write_calibration_tensor(paths * n, tmp_path / "out.npy", **how)) for n in (1, 5))
    assert many < 1.2 * few and long < 1.2 * short


HEADER = b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3, 32, 32), }".ljust(127) + b"\n"


@given(content=st.binary(max_size=300).map(lambda rest: b"\x93NUMPY\x01\x00" + rest))
@example(content=b"")
@example(content=b"garbage")
@example(content=b"\x93NUMPY\x01\x00")
@example(content=b"\x93NUMPY\x01\x00\x10\x00{'descr': __import")
@example(content=b"PK\x05\x06" + b"\0" * 18)
@example(content=b"\x80\x04K\x01.")
@example(content=HEADER + bytes(5000))  # of 49,152
def test_any_bytes_that_are_no_tensor_or_a_part_of_one_are_an_error_that_names_the_file(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("npy") / "t.npy"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"t\.npy"):
        open_inputs(path, INPUTS)


NEEDED = r"holds .* needed is float32 \[n, 3, 32, 32\]"


@pytest.mark.parametrize(
    ("tensor", "said"),
    [
        (np.zeros((4, 3, 8, 8), np.float32), NEEDED),
        (np.zeros((4, *SHAPE), np.uint8), NEEDED),
        (np.zeros(3), NEEDED),
        (np.pad(np.full((1, 1, 1, 1), np.nan, np.float32), [(3, 0), (0, 2), (0, 31), (0, 31)]), "holds NaN"),
    ],
)
def test_a_tensor_of_another_shape_or_type_or_with_nan_is_an_error(
    tmp_path: Path, tensor: np.ndarray, said: str
) -> None:
    np.save(tmp_path / "t.npy", tensor)
    with pytest.raises(InputError, match=said):
        list(tensor_batches(tmp_path / "t.npy", INPUTS, None).told(print))


def test_a_written_tensor_is_what_numpy_loads_and_an_interrupted_or_failed_write_leaves_nothing(tmp_path: Path) -> None:
    paths, out = sorted(image_folder(tmp_path / "images", 7).iterdir()), tmp_path / "out" / "out.npy"
    how = {"preprocessing": TINY, "batch": 3}
    with closing(write_calibration_tensor(paths, out, **how)) as writer:
        next(writer)
    assert not out.parent.exists()
    assert list(write_calibration_tensor(paths, tmp_path / "out.npy", **how)) == [3, 6, 7]
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), load_batch(paths, SIZE), strict=True)
    paths[5].write_bytes(b"broken")
    with pytest.raises(InputError, match=r"05\.png"):
        list(write_calibration_tensor(paths, out, **how))
    assert not out.parent.exists()


FOREIGN = "TRT-8600-MinMaxCalibration\ninput: 3caa54fc\na: 3caa54fc\nb: 3caa54fc"


@pytest.mark.parametrize(
    "text, names, said",
    [
        (None, ["input"], "cannot read the calibration cache"),
        ("TRT-8600-EntropyCalibration2\ninput: 3caa5\nrelu: 3caa5zzz\n", ["input"], r"c\.cache: line 3 .*: 3caa5zzz'"),
        (FOREIGN, ["input", "x", "y"], "belongs to another model: 1 of its 3 tensors"),
        (FOREIGN, ["data", "a", "b"], "belongs to another model: 2 of its 3 tensors"),
    ],
)
def test_a_cache_that_is_missing_or_bad_or_of_another_model_is_named(
    tmp_path: Path, text: str | None, names: list[str], said: str
) -> None:
    if text:
        (tmp_path / "c.cache").write_text(text)
    with pytest.raises(InputError, match=said):
        read_cache(tmp_path / "c.cache", names[:1], names)
