"""What grading that was killed leaves among the temporary files."""

import os
import tempfile
import time
from pathlib import Path

import pytest

from solutions.grading.gate import Gate
from solutions.grading.scratch import Scratch, remove_left_over


def test_what_was_left_a_day_ago_is_removed_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, new = Scratch.made(), Scratch.made()
    (left.artifacts / "model.onnx").write_bytes(b"x")
    others = [tmp_path / name for name in ("trt-lab-notes", "tmpabcdefgh", "trt-lab-load-and-more")]
    for folder in others:
        folder.mkdir()
    with Gate().passed(alone=False):
        pass
    (tmp_path / "trt-lab-abcdefgh").symlink_to(others[0])
    before = time.time() - 25 * 3600
    for path in (left.folder, *others, *tmp_path.glob("trt-lab-gate-*")):
        os.utime(path, (before, before))
    kept = sorted(path.name for path in tmp_path.iterdir() if path != left.folder)
    remove_left_over()
    assert sorted(path.name for path in tmp_path.iterdir()) == kept and new.artifacts.is_dir()
