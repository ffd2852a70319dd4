"""A copy of CIFAR-10 of one's own: read, never changed, and refused where it is not the binary version."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from helpers.data.datasets import load_dataset
from tests.helpers.data.test_datasets import _state, cifar_batch, tar_gz
from trtcpu.errors import DataError

BATCHES = {f"data_batch_{index}.bin": cifar_batch(20, index) for index in range(1, 6)} | {
    "test_batch.bin": cifar_batch(20, 0)
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "copies" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for name, batch in BATCHES.items():
        (folder / name).write_bytes(batch.tobytes())
    return folder


def _load(place: Path, tmp_path: Path):
    return load_dataset(f"cifar10:{place}", tmp_path / "root", progress=False)


def _is_right(data) -> bool:
    path, label = sorted(data.images("validation"), key=lambda item: item[0].name)[3]
    pixels = np.asarray(Image.open(path)).transpose(2, 0, 1).ravel()
    counts = [len(data.images(split)) for split in ("train", "validation", "calibration")]
    return counts == [100, 20, 20] and label == 3 and np.array_equal(pixels, BATCHES["test_batch.bin"][3][1:])


def test_the_folder_the_one_above_and_the_archive_give_the_same_images(folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "copies" / "mine.tar.gz"
    files = {f"cifar-10-batches-bin/{name}": batch.tobytes() for name, batch in BATCHES.items()}
    archive.write_bytes(tar_gz(files))
    before = _state(tmp_path / "copies")
    for place in (folder, folder.parent, archive):
        assert _is_right(_load(place, tmp_path)) and _state(tmp_path / "copies") == before
    assert not [path.name for path in (tmp_path / "root").iterdir() if path.name.startswith(".")]


def test_a_copy_that_was_changed_is_converted_again(folder: Path, tmp_path: Path) -> None:
    assert len(_load(folder, tmp_path).images("validation")) == 20
    (folder / "test_batch.bin").write_bytes(cifar_batch(30, 0).tobytes())
    assert len(_load(folder, tmp_path).images("validation")) == 30


def test_the_python_version_and_incomplete_copies_are_refused_in_one_line(folder: Path, tmp_path: Path) -> None:
    batch = pickle.dumps({b"labels": [1], b"data": np.zeros((1, 3072), np.uint8)})
    (tmp_path / "py" / "cifar-10-batches-py").mkdir(parents=True)
    (tmp_path / "py" / "cifar-10-batches-py" / "test_batch").write_bytes(batch)
    (tmp_path / "py.tar.gz").write_bytes(tar_gz({"cifar-10-batches-py/test_batch": batch}))
    (tmp_path / "broken.tar.gz").write_bytes(b"garbage")
    (folder / "data_batch_3.bin").unlink()
    for place, said in (
        (tmp_path / "py", "Python version of CIFAR-10, which only unpickling reads"),
        (tmp_path / "py" / "cifar-10-batches-py", "Python version"),
        (tmp_path / "py.tar.gz", "Python version"),
        (tmp_path / "broken.tar.gz", "is no .tar.gz, or is damaged"),
        (folder, "has no data_batch_3.bin; expected all six"),
        (tmp_path / "missing", "does not exist"),
    ):
        with pytest.raises(DataError, match=said) as caught:
            _load(place, tmp_path)
        assert "\n" not in str(caught.value)
    assert (tmp_path / "broken.tar.gz").exists()
