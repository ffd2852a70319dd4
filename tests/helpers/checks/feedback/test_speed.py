"""check_speed: a ratio against PyTorch, measured in turns; a slow engine is shown as one, and no error."""

from pathlib import Path

import pytest

from helpers.checks.feedback import check_speed, speed
from helpers.engine.given import probe_engine
from helpers.toys.networks import tiny_onnx
from trtcpu.errors import InputError


@pytest.mark.parametrize(("engine_s", "said"), [(0.01, "✓"), (0.039, "✗")])
def test_the_card_says_how_many_times_as_fast(monkeypatch, capsys, engine_s: float, said: str) -> None:
    seconds = {int: engine_s, float: 0.04}  # by what runs
    monkeypatch.setattr(speed, "_engine", lambda path: (8, int))
    monkeypatch.setattr(speed, "_pytorch", lambda batch: float)
    monkeypatch.setattr(speed, "_seconds", seconds.get)
    check_speed("some/resnet50_fp16.engine")
    printed = capsys.readouterr().out
    assert printed.startswith(f"{said} Speed of resnet50_fp16.engine")
    assert f"{0.04 / engine_s:.2f} times" in printed and "batch 8" in printed


def test_an_engine_really_runs(tmp_path: Path) -> None:
    plan = tmp_path / "tiny.engine"
    plan.write_bytes(probe_engine(tiny_onnx(seed=1, image=(3, 224, 224)), (1, 2, 4)))
    batch, run = speed._engine(plan)
    run()
    assert batch == 2


@pytest.mark.parametrize(("content", "said"), [(None, "cannot read the engine"), (b"text", "is not an engine of this")])
def test_what_is_no_engine_is_an_error(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "resnet50_fp16.engine"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        check_speed(path)
