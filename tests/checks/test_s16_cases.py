"""Step 16: each case is what its cause says, and findings are judged as they should be."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s16_cases import FUNCTIONS, evidence_seals, finding, seal
from helpers.checks.probes.student import Student
from helpers.course.artifacts import use_artifacts
from helpers.toys.casefiles import CASES_FOLDER, NOTHING, CaseFile, Finding, case_files
from solutions.checks.core.decide import run_points
from solutions.checks.s16_cases import visible
from solutions.checks.s16_cases.made import file_of, made


def _case_of(examine: Callable[[Any], Any], department: str = "clock") -> Case:
    return Case(Student.in_process({FUNCTIONS[department]: examine}), 3)


@pytest.mark.parametrize("seed", range(5))
def test_innocent_logs_have_a_mean_far_from_the_median_and_a_p95_that_is_the_p99(seed: int) -> None:
    level, long = (made("clock", NOTHING, seed, number)[0] for number in (5, 6))
    took, report = (long["calls"][:, 2] - long["calls"][:, 0])[long["report"]["warmup"] :], long["report"]
    assert level["report"]["p95_ms"] == pytest.approx(level["report"]["p99_ms"], rel=1e-3)
    assert report["mean_ms"] == pytest.approx(took.mean(), rel=1e-4) and report["warmup"] == 20
    assert report["mean_ms"] > 1.5 * report["median_ms"] == pytest.approx(1.5 * np.median(took), rel=1e-4)


@pytest.mark.parametrize("number", range(4))
def test_shifted_labels_are_put_right_by_their_own_shift_alone(number: int) -> None:
    for seed in range(3):
        material, proof = made("scores", "labels_shifted", seed, number)
        best, labels = material["scores"].argmax(axis=1), material["labels"]
        hits = sorted(100 * float(np.mean(best == (labels + step) % 10)) for step in range(10))
        assert hits[-1] == pytest.approx(proof, abs=0.01) and hits[-1] > 2 * hits[-2]


def test_the_visible_cases_are_those_that_the_docket_names() -> None:
    seals, cases = json.loads((CASES_FOLDER / "sealed.json").read_text()), case_files()
    assert len(cases) == len(seals) == 12
    for case, (department, cause, variant, story) in zip(cases, visible.DOCKET, strict=True):
        material, proof = made(department, cause, visible.SEED, variant)
        assert (case.department, case.story) == (department, story)
        assert seals[case.number]["cause"] == seal(case.number, cause)
        assert department == "scores" or case.report == material["report"]  # scores: ties may fall otherwise
        if cause != NOTHING:
            assert seals[case.number]["evidence"] in evidence_seals(case.number, cause, proof)


def test_what_names_no_cause_of_the_department_is_no_finding() -> None:
    with pytest.raises(Missed, match=r"a Finding from check_clock.*return Finding\(NOTHING\)"):
        finding(_case_of(lambda case: ("other_model", 3)), "clock", file_of(made("clock", NOTHING, 1)[0]))


def test_who_knows_half_of_the_causes_earns_half_of_their_share(
    tmp_path: Path,
) -> None:
    use_artifacts(tmp_path / "artifacts")

    def half(case: CaseFile) -> Finding:
        took, mean = case.calls[:, 2] - case.calls[:, 0], case.report["mean_ms"]
        right = took[case.report["warmup"] :].mean()
        if abs(mean / right - 1) < 0.005:
            return Finding(NOTHING)
        return Finding("launch_time" if mean < right else "warmup_counted", right)

    earned = {result.claim: result.earned for result in run_points("clock_cases", _case_of(half)).results}
    assert earned == {"cases.clock_causes": 0.25, "cases.clock_proofs": 0.15, "cases.clock_innocent": 0.2}
