"""Step 16: each case is what its cause says, and verdicts are judged as they should be."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.checks.feedback import check_clock_cases
from helpers.checks.feedback.check import NotYet
from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s16_cases import FUNCTIONS, evidence_seal, proven, seal, verdict
from helpers.checks.probes.student import Student
from helpers.tools.outputs import onnx_outputs
from helpers.toys.casefiles import CASES_FOLDER, CAUSES, NOTHING, Finding, case_files, pictures, prepared, tensor_ranges
from solutions.checks.core.decide import run_points
from solutions.checks.s16_cases import visible
from solutions.checks.s16_cases.claims import EACH, HEALTHY
from solutions.checks.s16_cases.made import made
from solutions.checks.s16_cases.sealed import Sealed
from solutions.checks.trusted.solution_cells import solution_cell
from trtcpu.calibration_cache import parse_cache

EVERY = [(department, cause) for department, causes in CAUSES.items() for cause in (*causes, NOTHING)]


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))
    monkeypatch.setenv("TRT_LAB_RECORDS", str(tmp_path))
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)


def _examiner(department: str) -> Callable[[Any], Finding]:
    namespace: dict[str, Any] = {}
    exec("import numpy as np\nfrom trtcpu.calibration_cache import parse_cache\n", namespace)
    exec("from helpers.toys.casefiles import *\nfrom helpers.tools.outputs import onnx_outputs\n", namespace)
    exec(solution_cell("16_cases", FUNCTIONS[department]), namespace)
    return namespace[FUNCTIONS[department]]


def _case_of(examine: Callable[[Any], Any], department: str = "clock", seed: int = 3) -> Case:
    return Case(Student.in_process({FUNCTIONS[department]: examine}), seed)


def _took(sealed: Sealed) -> np.ndarray:
    calls, skip = sealed.material["calls"], sealed.material["report"]["warmup"]
    return (calls[:, 2] - calls[:, 0])[skip:]


@pytest.mark.parametrize(("department", "cause"), EVERY)
def test_the_solution_finds_and_proves_every_cause_in_both_of_its_ways(department: str, cause: str) -> None:
    for number in (0, 1):
        sealed = made(department, cause, 41, number)
        found = _examiner(department)(sealed.case())
        assert found.cause == cause
        assert cause == NOTHING or proven(found.evidence, sealed.evidence)


@pytest.mark.parametrize(
    ("department", "cause"), [("engine", "one_scale"), ("clock", "launch_time"), ("scores", NOTHING)]
)
def test_the_same_seed_makes_the_same_case_and_another_number_another(department: str, cause: str) -> None:
    first, again, other = (made(department, cause, 5, number).material for number in (0, 0, 1))
    text = [repr({name: np.asarray(value).tolist() for name, value in case.items()}) for case in (first, again, other)]
    assert text[0] == text[1] != text[2]


def test_a_log_s_report_is_numpy_s_of_the_counted_calls() -> None:
    sealed = made("clock", NOTHING, 6, 2)
    took, report = _took(sealed), sealed.material["report"]
    figures = {"mean_ms": took.mean(), "median_ms": np.median(took), "p99_ms": np.percentile(took, 99)}
    for name, value in figures.items():
        assert report[name] == pytest.approx(value, rel=1e-4)


def test_a_mean_with_its_warmup_is_far_from_the_right_one() -> None:
    for number in range(6):
        sealed = made("clock", "warmup_counted", 6, number)
        assert sealed.material["report"]["mean_ms"] > 1.03 * sealed.evidence


def test_a_p99_that_is_the_p95_differs_from_the_right_one() -> None:
    for number in range(12):
        sealed = made("clock", "p95_for_p99", 6, number)
        assert not proven(sealed.material["report"]["p99_ms"], sealed.evidence)


def test_a_healthy_cache_fits_and_one_damaged_line_does_not() -> None:
    for cause, expected in ((NOTHING, 0), ("one_scale", 1)):
        case = made("engine", cause, 8, 1).case()
        measured, scales = tensor_ranges(case.onnx, prepared(case.pictures)), parse_cache(case.cache).scales
        ratios = np.array([127 * scales[name] / most for name, most in measured.items()])
        assert np.sum((ratios < 0.5) | (ratios > 2)) == expected


def test_answers_that_came_late_are_those_of_the_batch_before() -> None:
    sealed = made("scores", "late_read", 9, 1)
    case = sealed.case()
    answers, batch = onnx_outputs(case.onnx, prepared(case.pictures)), case.report["batch"]
    np.testing.assert_allclose(case.scores[batch:], answers[:-batch], atol=0.02)
    right = 100 * np.mean(answers.argmax(axis=1) == case.labels)
    assert right == pytest.approx(sealed.evidence, abs=0.01) and right > 2 * case.report["top1"]


@pytest.mark.parametrize("number", range(4))
def test_shifted_labels_are_put_right_by_their_own_shift_alone(number: int) -> None:
    for seed in range(3):
        sealed = made("scores", "labels_shifted", seed, number)
        best, labels = sealed.material["scores"].argmax(axis=1), sealed.material["labels"]
        hits = [100 * float(np.mean(best == (labels + step) % 10)) for step in range(10)]
        assert max(hits) == pytest.approx(sealed.evidence, abs=0.01) and max(hits) > 2 * hits[0] > 20
        assert sorted(hits)[-2] < 2 * hits[0]


def test_a_report_can_be_recounted_from_the_noted_scores_to_the_last_picture() -> None:
    for number in range(8):
        case = made("scores", NOTHING, 12, number).case()
        order = np.argsort(-case.scores, axis=1) == case.labels[:, None]
        found = 100 * order[:, 0].mean(), 100 * order[:, :5].any(axis=1).mean()
        assert found == pytest.approx((case.report["top1"], case.report["top5"]), abs=0.01)


def test_a_top5_is_four_pictures_or_more_above_the_top1_that_it_is_taken_for() -> None:
    for number in range(4):
        sealed = made("scores", "top5_for_top1", 12, number)
        report = sealed.material["report"]
        assert (report["top1"] - sealed.evidence) * report["images"] / 100 > 3.9


def test_a_wrong_input_costs_accuracy() -> None:
    for cause in ("channels_reversed", "pixels_fed"):
        for number in range(3):
            sealed = made("scores", cause, 10, number)
            assert sealed.material["report"]["top1"] < sealed.evidence - 5


def test_the_visible_cases_are_those_that_the_docket_names() -> None:
    seals = json.loads((CASES_FOLDER / "sealed.json").read_text())
    cases = case_files()
    assert len(cases) == len(visible.DOCKET) == len(seals) == 12
    for case, (department, cause, variant, story) in zip(cases, visible.DOCKET, strict=True):
        sealed = made(department, cause, visible.SEED, variant)
        assert (case.department, case.story) == (department, story)
        assert seals[case.number]["cause"] == seal(case.number, cause)
        assert department == "scores" or case.report == sealed.material["report"]  # scores: ties may fall otherwise
        if "pictures" in sealed.material:
            assert np.array_equal(case.pictures, pictures(**sealed.material["pictures"]))
        if cause != NOTHING:
            nearest = [evidence_seal(case.number, cause, sealed.evidence, step) for step in range(-2, 3)]
            assert seals[case.number]["evidence"] in nearest


def test_ten_visible_cases_have_a_mistake_and_two_are_innocent() -> None:
    causes = [cause for _, cause, _, _ in visible.DOCKET]
    assert causes.count(NOTHING) == 2 and len(set(causes)) == 11


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, "a Finding from check_clock"),
        ("launch_time", "a Finding from check_clock"),
        (("stale", 1.0), "one of launch_time, warmup_counted"),
        (("launch_time", None), "a number that proves launch_time"),
        (Finding("launch_time"), "a number that proves launch_time"),
        (("other_model", 3), "one of launch_time"),
    ],
)
def test_what_is_no_finding_is_named(answer: Any, expected: str) -> None:
    with pytest.raises(Missed) as missed:
        verdict(_case_of(lambda case: answer), "clock", made("clock", NOTHING, 1).data())
    assert missed.value.expected.startswith(expected)
    told = "for a case without a mistake, return Finding(NOTHING)" in missed.value.try_this
    assert told is not expected.startswith("a number")


def test_nothing_needs_no_evidence_and_a_pair_is_a_finding() -> None:
    for answer in (Finding(NOTHING), NOTHING, (NOTHING, None), (NOTHING, 0)):
        assert (
            verdict(_case_of(lambda case, said=answer: said), "clock", made("clock", NOTHING, 1).data()).cause
            == NOTHING
        )


def test_a_proof_may_be_three_percent_off_and_no_more() -> None:
    assert proven(1.029, 1) and proven(-0.971, -1) and not proven(1.031, 1) and not proven(float("nan"), 1)
    assert proven(51.5, 50, slack=1.7) and not proven(52, 50, slack=1.7)


def test_the_visible_check_ticks_for_the_solution_and_names_the_case_for_others(capsys: Any) -> None:
    check_clock_cases(_examiner("clock"))
    assert capsys.readouterr().out.startswith("✓")
    with pytest.raises(NotYet):
        check_clock_cases(lambda case: Finding("p95_for_p99", 1.0) if case.number == "06" else _examiner("clock")(case))
    assert "case 06: p95_for_p99" in capsys.readouterr().out


def test_who_knows_half_of_the_causes_earns_half_of_their_share() -> None:
    def half(case: Any) -> Finding:
        found = _examiner("clock")(case)
        return found if found.cause in ("launch_time", "warmup_counted") else Finding(NOTHING)

    earned = {result.claim: result.earned for result in run_points("clock_cases", _case_of(half)).results}
    assert earned == {"cases.clock_causes": 0.25, "cases.clock_proofs": 0.15, "cases.clock_innocent": 0.2}


def test_the_notebook_says_how_many_fresh_cases_there_are() -> None:
    notebook = (Path(visible.__file__).parents[2] / "16_cases" / "16_cases.ipynb").read_text()
    assert (EACH, HEALTHY) == (4, 8)
    assert "four of each cause" in notebook and "eight that are healthy" in notebook


def test_who_lets_everybody_go_earns_nothing() -> None:
    assert run_points("clock_cases", _case_of(lambda case: Finding(NOTHING))).earned == 0
