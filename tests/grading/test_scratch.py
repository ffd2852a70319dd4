"""What grading that was killed leaves among the temporary files."""

import os
import tempfile
import time
from pathlib import Path

import pytest

from helpers.course.settings import ENGINES
from helpers.tools.files import TEMPORARIES, atomic_write, remove_temporaries
from solutions.grading import scratch
from solutions.grading.judge.process import Artifacts
from solutions.grading.locks import Gate
from solutions.grading.scratch import Scratch, remove_left_over
from solutions.sandbox.room import STANDARD


def test_what_was_left_a_day_ago_is_removed_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, new = Scratch.made(STANDARD), Scratch.made(STANDARD)
    (left.artifacts / "model.onnx").write_bytes(b"x")
    others = [tmp_path / name for name in ("trt-lab-notes", "tmpabcdefgh", "trt-lab-load-and-more")]
    for folder in others:
        folder.mkdir()
    with Gate().passed(alone=False):
        pass
    place = tmp_path / "trt-lab-place-abcdefgh"  # of a grader that was killed with all that it had started
    (place / "trt-lab-00000000" / "artifacts").mkdir(parents=True)
    (tmp_path / "trt-lab-abcdefgh").symlink_to(others[0])
    before = time.time() - 25 * 3600
    for path in (left.folder, place, *others, *tmp_path.glob("trt-lab-gate-*")):
        os.utime(path, (before, before))
    kept = sorted(path.name for path in tmp_path.iterdir() if path not in (left.folder, place))
    remove_left_over()
    assert sorted(path.name for path in tmp_path.iterdir()) == kept and new.artifacts.is_dir()
    for scratch_of_ours in (left, new):
        scratch_of_ours.remove()


def test_a_process_that_ends_without_unwinding_leaves_no_scratch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scratch = Scratch.made(STANDARD)
    (scratch.artifacts / "model.onnx").write_bytes(b"x")
    remove_temporaries()
    assert list(tmp_path.iterdir()) == []
    scratch.remove()
    assert scratch.folder not in TEMPORARIES


def test_a_file_counts_as_it_was_when_a_test_cell_first_asked_for_it(tmp_path: Path) -> None:
    scratch, trusted = Scratch(tmp_path / "scratch"), tmp_path / "trusted"
    scratch.artifacts.mkdir(parents=True)
    plan, cache, earlier = ENGINES["int8"], "resnet50_calib.cache", ENGINES["fp32"]
    artifacts = Artifacts("04_int8", trusted, scratch.artifacts, 100)
    atomic_write(trusted / earlier, b"as it was")
    (scratch.artifacts / earlier).write_bytes(b"another")
    assert artifacts.read(plan) is None and artifacts.read(earlier) == b"as it was"
    (scratch.artifacts / plan).write_bytes(b"careful")
    assert artifacts.read(plan) is None, "one cell sees one state"
    artifacts.forget()
    assert artifacts.read(plan) == b"careful"
    (scratch.artifacts / plan).write_bytes(b"fast")
    (scratch.artifacts / cache).write_bytes(b"nobody asked for it")
    artifacts.forget()
    assert artifacts.read(plan) == b"careful"
    (line,) = scratch.keep("04_int8", trusted, artifacts.judged, 100)
    assert line.startswith(f"{plan}: changed")
    assert [(trusted / name).read_bytes() for name in (plan, cache)] == [b"careful", b"nobody asked for it"]


def test_sparse_files_take_no_more_than_the_limit_where_they_become_whole(tmp_path: Path) -> None:
    scratch, trusted = Scratch(tmp_path / "scratch"), tmp_path / "trusted"
    scratch.artifacts.mkdir(parents=True)
    fp32, fp16, int8 = "bert_fp32.engine", "bert_fp16.engine", "bert_int8.engine"
    for name in (fp32, fp16, int8):
        with (scratch.artifacts / name).open("wb") as file:
            file.truncate(600 << 10)
    artifacts = Artifacts("11_bert", trusted, scratch.artifacts, 1 << 20)
    assert artifacts.read(fp16) is not None and artifacts.read(int8) is None
    notes = scratch.keep("11_bert", trusted, artifacts.judged, 1 << 20)
    assert [path.name for path in trusted.iterdir()] == [fp16] and artifacts.judged == {fp16}
    assert notes == [f"{name}: not kept, since the step's files pass its limit of 1 MiB" for name in (fp32, int8)]


def test_what_filled_the_disk_is_gone_before_anything_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled, kept = Scratch.made(STANDARD), {}
    (filled.artifacts / "resnet50.onnx").write_bytes(b"a model")

    def write(path: Path, content: bytes) -> None:
        assert not filled.folder.exists(), "the disk would still be full"
        kept[path.name] = content

    monkeypatch.setattr(scratch, "atomic_write", write)
    filled.keep("01_export", tmp_path, set(), 100)
    assert kept == {"resnet50.onnx": b"a model"}
