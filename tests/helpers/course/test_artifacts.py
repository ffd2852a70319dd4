"""Artifacts and labels: every file has a step, and every number names its engine, device, batch and precision."""

import pytest

from helpers.course.artifacts import artifact, artifact_path, artifacts_folder, use_artifacts
from helpers.course.labels import label, progress
from helpers.course.settings import LATENCY_SECONDS, _switched_on, iterations
from helpers.course.steps import ARTIFACTS, GRADED, made_by
from trtcpu.errors import InputError


def test_every_artifact_is_made_by_a_step_and_each_of_the_eight_makes_some():
    steps = "01_export 02_fp16 03_dynamic 04_int8 05_inference 06_benchmark 07_accuracy 08_report"
    assert set(steps.split()) <= set(ARTIFACTS.values()) <= set(GRADED)


def test_a_missing_artifact_is_named_with_the_step_that_makes_it(tmp_path):
    with pytest.raises(InputError, match="resnet50_int8.engine is missing.*run step 04_int8"):
        artifact("resnet50_int8.engine", tmp_path)


def test_an_empty_artifact_is_not_taken_for_a_good_one(tmp_path):
    (tmp_path / "resnet50.onnx").touch()
    with pytest.raises(InputError, match="is empty; run step 01_export again"):
        artifact("resnet50.onnx", tmp_path)


def test_an_artifact_that_is_there_gives_its_path(tmp_path):
    (tmp_path / "resnet50.onnx").write_bytes(b"x")
    assert artifact("resnet50.onnx", tmp_path) == tmp_path / "resnet50.onnx"


def test_a_name_that_no_step_makes_lists_what_there_is():
    with pytest.raises(InputError, match="no step makes 'resnet.onnx'; the artifacts are resnet50.onnx"):
        made_by("resnet.onnx")


def test_all_steps_share_one_folder_whether_run_in_their_own_or_above(tmp_path, monkeypatch):
    (tmp_path / "02_fp16").mkdir()
    monkeypatch.chdir(tmp_path)
    above = artifacts_folder()
    monkeypatch.chdir(tmp_path / "02_fp16")
    assert artifacts_folder() == above == tmp_path / "artifacts"


def test_another_folder_can_be_used(tmp_path):
    use_artifacts(tmp_path / "mine")
    assert artifact_path("latency.json") == tmp_path / "mine" / "latency.json"


def test_a_label_names_device_batch_and_precision():
    assert label(batch=8, precision="int8", device="Engine X on Y") == "Engine X on Y · batch 8 · INT8"
    assert label(device="Engine X on Y") == "Engine X on Y"


@pytest.mark.parametrize(("call_ms", "times"), [(0.1, 1000), (1e5, 3), (1e3 * LATENCY_SECONDS / 50, 50)])
def test_a_call_is_timed_as_often_as_the_seconds_allow(call_ms: float, times: int):
    assert iterations(call_ms) == times


def test_a_label_takes_the_device_of_the_engine_in_use():
    from helpers.engine.backend import DEVICE

    assert label(batch=1).startswith(DEVICE)


def test_a_progress_bar_passes_items_on_and_keeps_off_stderr(capsys):
    assert list(progress(range(3), "counting")) == [0, 1, 2]
    captured = capsys.readouterr()
    assert "counting" in captured.out and captured.err == ""


@pytest.mark.parametrize("value, on", [("1", True), (" 1 ", True), ("0", False), ("", False)])
def test_the_quick_lab_is_switched_by_1_and_0(monkeypatch, value, on):
    monkeypatch.setenv("TRT_LAB_QUICK", value)
    assert _switched_on("TRT_LAB_QUICK") is on


def test_another_value_of_a_switch_is_an_error(monkeypatch):
    monkeypatch.setenv("TRT_LAB_QUICK", "false")
    with pytest.raises(InputError, match="TRT_LAB_QUICK='false' is no switch; set it to 1, or to 0"):
        _switched_on("TRT_LAB_QUICK")
