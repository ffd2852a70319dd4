"""Is trtexec run with the right arguments and logged, and its absence one clear line? A script stands in for it."""

import stat
from pathlib import Path

import pytest

from trtcpu.errors import EngineError, EngineUnavailableError, InputError
from trtlab.trtexec import command as trtexec
from trtlab.trtexec.command import find_trtexec, run_trtexec, trtexec_arguments
from trtlab.trtexec.log import read_log

FIXTURES = Path(__file__).parents[1] / "fixtures" / "trtexec"


def _install(folder: Path, monkeypatch: pytest.MonkeyPatch, log: str, code: int) -> None:
    script = folder / "trtexec"
    script.write_text(f'#!/bin/sh\necho "# arguments: $*"\ncat "{FIXTURES / log}"\nexit {code}\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_without_trtexec_the_error_points_to_bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(trtexec, "_PLACES", ())
    with pytest.raises(EngineUnavailableError, match="not installed.*trtlab bench"):
        find_trtexec()


def test_its_output_is_echoed_and_saved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _install(tmp_path, monkeypatch, "v10.16_dynamic.log", 0)
    seen: list[str] = []
    run_trtexec(["--onnx=m.onnx", "--fp16"], tmp_path / "t.log", seen.append)
    assert seen[0] == "# arguments: --onnx=m.onnx --fp16"
    assert read_log(tmp_path / "t.log")[0].throughput_qps == 1200.5


def test_a_failure_names_its_first_error_and_keeps_the_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _install(tmp_path, monkeypatch, "v10.16_failed.log", 1)
    with pytest.raises(EngineError, match="exit code 1.*deserializeCudaEngine"):
        run_trtexec([], tmp_path / "t.log", lambda line: None)
    assert "FAILED" in (tmp_path / "t.log").read_text()


def test_building_saves_the_engine_and_loading_loads_it(tmp_path: Path) -> None:
    onnx, engine = tmp_path / "m.onnx", tmp_path / "e.engine"
    onnx.touch()
    built = trtexec_arguments(onnx=str(onnx), engine=str(engine), extra=["--int8"])
    assert built[:2] == [f"--onnx={onnx}", f"--saveEngine={engine}"]
    assert built[2:] == ["--warmUp=200", "--iterations=10", "--duration=3", "--int8"]
    engine.touch()
    assert trtexec_arguments(engine=str(engine))[0] == f"--loadEngine={engine}"


def test_what_is_passed_through_wins_over_the_defaults() -> None:
    passed = ["--onnx=m", "--warmUp=5"]
    assert trtexec_arguments(extra=passed) == ["--iterations=10", "--duration=3", *passed]


@pytest.mark.parametrize("wrong", [{}, {"engine": "/no/such"}, {"extra": ["--onnx=m"], "iterations": 0}])
def test_impossible_calls_are_refused(wrong: dict) -> None:
    with pytest.raises(InputError):
        trtexec_arguments(**wrong)


def test_a_command_for_another_machine_needs_none_of_its_files_here() -> None:
    there = trtexec_arguments(onnx="there.onnx", extra=["--fp16"], must_exist=False)
    assert there == ["--onnx=there.onnx", "--warmUp=200", "--iterations=10", "--duration=3", "--fp16"]


def test_a_run_that_is_interrupted_keeps_the_log_so_far(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _install(tmp_path, monkeypatch, "v10.16_dynamic.log", 0)

    def interrupted(line: str) -> None:
        if "Throughput" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_trtexec([], tmp_path / "t.log", interrupted)
    kept = (tmp_path / "t.log").read_text()
    assert kept.startswith("# arguments") and kept.splitlines()[-1].endswith("Throughput: 1200.5 qps")
