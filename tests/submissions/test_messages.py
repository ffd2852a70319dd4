"""The page of messages: a step's part is written from its run, the other steps keep theirs."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.course.steps import CELLS, GRADED
from solutions.checks.core.asked import points_of
from tests.submissions.bank import ROOT
from tests.submissions.messages import claims_without_message, messages, write_messages

PAGE = ROOT / "docs" / "messages.md"
VISIBLE = """Clocks: 1 of 2
  ✗ Both clocks agree
      expected  5 ms
      found     7 | 8 ms
      try       wait for the stream
"""


def _figures(step: str, claim: str) -> dict[str, Any]:
    missed = {"expected": "a number", "found": "/tmp/abc/model.onnx", "try_this": "<b> look again"}
    row = {"step": step, "name": "an_entry", "kind": "wrong", "lost": {claim: missed}, "lost_wrongly": []}
    return {"entries": [{**row, "visible": {"a_cell": VISIBLE}}]}


def test_a_step_s_messages_take_the_place_of_its_own_and_of_no_other(tmp_path: Path) -> None:
    page = tmp_path / "messages.md"
    page.write_bytes(PAGE.read_bytes())
    write_messages(page, _figures("02_fp16", "fp16.speed"))
    before, after = (text.split("\n## ") for text in (PAGE.read_text(), page.read_text()))
    assert [part.split("\n")[0] for part in after] == [part.split("\n")[0] for part in before]
    assert [old.rstrip() == new.rstrip() for old, new in zip(before, after, strict=True)].count(False) == 1
    assert "| `fp16.speed` | an_entry | a number | …/model.onnx | \\<b> look again |" in after[2]
    assert "| Both clocks agree | an_entry | 5 ms | 7 \\| 8 ms | wait for the stream |" in after[2]


def test_a_step_that_has_no_part_yet_gets_one_in_the_course_s_order(tmp_path: Path) -> None:
    page = tmp_path / "messages.md"
    for step in ("16_cases", "01_export", "11_bert"):
        write_messages(page, _figures(step, "a.claim"))
    assert [line for line in page.read_text().splitlines() if line.startswith("## ")] == [
        "## 01_export",
        "## 11_bert",
        "## 16_cases",
    ]


def test_the_page_is_what_a_run_of_the_whole_bank_writes(tmp_path: Path) -> None:
    write_messages(tmp_path / "messages.md", {"entries": []})
    empty = (tmp_path / "messages.md").read_text()
    assert PAGE.read_text().startswith(empty) and messages({"entries": []}) == {}


def test_only_claims_of_steps_that_ran_can_lack_a_message() -> None:
    claims = [claim.name for cell, about in CELLS.items() if about.step == "13_compilers" for claim in points_of(cell)]
    assert claims_without_message(_figures("13_compilers", claims[0])) == claims[1:]


def test_the_page_has_every_claim_of_every_step() -> None:
    text = PAGE.read_text()
    assert [step for step in GRADED if f"## {step}\n" not in text] == []
    assert [claim.name for cell in CELLS for claim in points_of(cell) if f"| `{claim.name}` |" not in text] == []


@pytest.mark.slow
@pytest.mark.parametrize("part", [["--quick"], ["--name", "flag_forgotten"]])
def test_a_part_of_a_step_writes_no_messages(tmp_path: Path, part: list[str]) -> None:
    command = [sys.executable, "-m", "tests.submissions", *part, "--messages", str(tmp_path / "page.md")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "leave out --name, --quick" in done.stderr and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
