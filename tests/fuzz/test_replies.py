"""Forged replies: whatever a probe answers in the form that it must have, a claim is kept or lost, and never fails.

The solution's own replies decide the claims, some of them altered. The notebook made no artifacts: claims that look at
these first ask nothing, and are left out.
"""

import contextlib
import reprlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import matplotlib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.checks.points.case import Case
from helpers.checks.points.task import Point
from helpers.checks.probes.answer import Ask, answer, known_probe
from helpers.checks.probes.codec import pack, unpack
from helpers.checks.probes.schema import schema_of
from helpers.checks.probes.student import Student, read_artifact
from helpers.course.artifacts import use_artifacts
from helpers.course.settings import ENGINES, ONNX_FILE
from helpers.course.steps import CELLS, GRADED
from helpers.engine.backend import trt
from helpers.engine.given import probe_engine
from helpers.toys.networks import tiny_onnx
from solutions.checks.core.asked import points_of
from solutions.checks.core.decide import decide
from solutions.checks.core.record import ClaimResult
from tests.fuzz import ASKED, cases
from tests.fuzz.replies import TEXTS, altered, valued
from tests.submissions.bank import notebook_cells

pytestmark = pytest.mark.filterwarnings("ignore")  # NumPy's, of what is no number: they end no claim

OF_THE_LAB_S_MODEL = {
    "export.deliverables",  # exports it
    "int8.images",  # calibrates it
}
QUICK = {"07_accuracy", "08_report", "12_layer_profiling", "14_explicit_quantisation"}
"""Steps whose solution answers everything within two seconds: only these are tried without --fuzz-cases."""

STEPS = [step for step in GRADED if ASKED or step in QUICK]
SEED = 11
ERRORS = st.fixed_dictionaries({"type": TEXTS, "message": TEXTS, "where": TEXTS})


class Told:
    """What was answered to a request: the probe asked, its reply, and the questions that it asked meanwhile."""

    def __init__(self, probe: str, reply: dict[str, Any], questions: list[bytes]) -> None:
        self.probe, self.reply, self.questions = probe, reply, questions

    def __repr__(self) -> str:
        return f"{self.probe}: {reprlib.repr(self.reply)} after {len(self.questions)} questions"


class Solution:
    """A step's solution: it runs once for each request, and answers from memory from then on."""

    def __init__(self, step: str, artifact: Callable[[str], bytes | None]) -> None:
        self._namespace: dict[str, Any] = {"__name__": "__main__", "logger": trt.Logger(trt.Logger.ERROR)}
        for index, cell in enumerate(notebook_cells(step)):
            about = cell.metadata.get("nbgrader", {})
            if index == 0 or about.get("solution") or about.get("grade_id") == "channel_axis":
                with contextlib.suppress(Exception):  # a cell that goes on with the lab's model, which is not there
                    exec(cell.source, self._namespace)
        self._artifact = artifact
        self.told: dict[bytes, Told] = {}
        claims = [claim for cell, about in CELLS.items() if about.step == step for claim in points_of(cell)]
        asked = [(claim, self.decides(claim, {})[1]) for claim in claims if claim.name not in OF_THE_LAB_S_MODEL]
        self.asked = [(claim, requests) for claim, requests in asked if requests]

    def decides(self, claim: Point, forged: Mapping[bytes, Told]) -> tuple[ClaimResult, list[bytes]]:
        """Return what became of a claim to which some replies are forged, and what it asked."""
        asked: list[bytes] = []

        def send(request: bytes, ask: Ask, limit_s: float) -> bytes:
            asked.append(request)
            return self._answer(request, ask, forged.get(request))

        return decide(claim, Case(Student(send, self._artifact), SEED)), asked

    def _answer(self, request: bytes, ask: Ask, forged: Told | None) -> bytes:
        told = forged or self.told.get(request)
        if told is not None:
            for question in told.questions:
                ask(question)
            return pack(told.reply)
        questions: list[bytes] = []

        def noted(question: bytes) -> bytes:
            questions.append(question)
            return ask(question)

        reply = answer(self._namespace, request, noted)
        self.told[request] = Told(unpack(request)["probe"], unpack(reply), questions)
        return reply


@pytest.fixture(scope="module", params=STEPS)
def solution(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Solution]:
    """A step's solution beside an artifacts folder of its own."""
    folder = tmp_path_factory.mktemp("artifacts")
    if request.param == "08_report":  # it looks at their sizes
        (folder / ONNX_FILE).write_bytes(tiny_onnx(0))
        for seed, name in enumerate(ENGINES.values()):
            (folder / name).write_bytes(probe_engine(tiny_onnx(seed), (1, 1, 8 + seed)))
    use_artifacts(folder)
    with matplotlib.rc_context():  # notebooks set theirs
        yield Solution(request.param, partial(read_artifact, folder))
    use_artifacts(None)


@st.composite
def altered_reply(draw: st.DrawFn, told: Told) -> Told:
    """Return another reply to the same request, mostly after the same questions."""
    schema = schema_of(known_probe(told.probe))
    error, value = None, told.reply["value"]
    if draw(st.integers(0, 9)) == 0:
        error, value = draw(ERRORS), None
    else:
        value = draw(valued(schema) if told.reply["error"] else altered(value, schema))
    questions = told.questions[: draw(st.sampled_from([None, None, None, 0, len(told.questions) // 2]))]
    return Told(told.probe, {**told.reply, "error": error, "value": value}, questions)


@given(data=st.data())
@cases(30, len(STEPS))
def test_no_claim_fails(solution: Solution, data: st.DataObject) -> None:
    claim, requests = solution.asked[data.draw(st.integers(0, len(solution.asked) - 1))]
    some = data.draw(st.lists(st.sampled_from(range(len(requests))), min_size=1, max_size=3, unique=True))
    forged = {requests[one]: data.draw(altered_reply(solution.told[requests[one]]), claim.name) for one in some}
    result = solution.decides(claim, forged)[0]
    assert result.status in ("kept", "partial", "lost"), result.evidence
