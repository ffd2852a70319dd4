"""Files appear whole or not at all, and folders made for a file that failed go with it."""

import stat
from pathlib import Path

import pytest

from helpers.tools import files
from helpers.tools.files import atomic_path, atomic_write, made_folders, remove_temporaries
from trtcpu.errors import InputError


def test_a_failed_write_leaves_neither_the_file_nor_the_folders_made_for_it(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), atomic_path(tmp_path / "a" / "b" / "file") as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_there_or_that_another_filled_stays(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(ValueError), made_folders(tmp_path / "there"):
        raise ValueError
    with pytest.raises(ValueError), made_folders(tmp_path / "new" / "inner"):
        (tmp_path / "new" / "other").write_text("of another process")
        raise ValueError
    assert (tmp_path / "there").is_dir() and (tmp_path / "new" / "other").exists()
    assert not (tmp_path / "new" / "inner").exists()


def test_a_written_file_is_readable_as_any_new_file_is(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    atomic_write(tmp_path / "new" / "file", "x")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "new/file")]
    assert modes[0] == modes[1] and [path.name for path in (tmp_path / "new").iterdir()] == ["file"]


@pytest.mark.parametrize("inner", ["file/below", "file/far/below"])
def test_a_path_below_a_file_is_one_line(tmp_path: Path, inner: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot write .*file"):
        atomic_write(tmp_path / inner, "x")


def test_an_error_about_another_file_is_not_taken_for_a_failed_write(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "file"):
        (tmp_path / "none" / "input").read_text()
    assert list(tmp_path.iterdir()) == []


def test_open_temporaries_can_be_removed_from_another_thread(tmp_path: Path) -> None:
    with pytest.raises(InputError), atomic_path(tmp_path / "file") as temporary:
        assert temporary.exists()
        remove_temporaries()
        assert list(tmp_path.iterdir()) == []
    assert not files.TEMPORARIES
