"""The pages of messages: a step's page is written from its run, the other pages stay; each message comes once."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.course.steps import BY_NAME, CELLS, GRADED
from solutions.checks.core.asked import points_of
from tests.submissions.bank import ROOT
from tests.submissions.messages import Row, claims_without_message, page, rows_of, write_messages

PAGES = ROOT / "labs" / "messages"
WRITTEN, PLAN = "The engine is written to engine_path", "A serialized engine is returned"
VISIBLE = f"""FP16 engine: 1 of 2
  ✗ {WRITTEN}
      expected  a file of 5 ms
      found     7 | 8 ms
      try       write <b> in __call__
"""


def _figures(step: str, claim: str, visible: str = VISIBLE) -> dict[str, Any]:
    missed = {"expected": "a number", "found": "/tmp/abc/model.onnx", "try_this": "look again"}
    row = {"step": step, "name": "an_entry", "about": "Writes nothing.", "kind": "wrong", "lost_wrongly": []}
    return {"entries": [{**row, "lost": {claim: missed}, "visible": {next(iter(BY_NAME[step].cells)): visible}}]}


def _row(title: str, try_this: str = "look again", expected: str = "a number", found: str = "none", **more: str) -> Row:
    return Row(
        **{"cell": "fp16_engine", "cause": "", **more}, title=title, expected=expected, found=found, try_this=try_this
    )


def test_a_step_s_page_is_written_anew_and_no_other(tmp_path: Path) -> None:
    shutil.copytree(PAGES, tmp_path / "pages")
    write_messages(tmp_path / "pages", rows_of(_figures("02_fp16", "fp16.speed")))
    texts = {path.name: path.read_text() for path in (tmp_path / "pages").iterdir()}
    assert [name for name, text in texts.items() if (PAGES / name).read_text() != text] == ["02_fp16.md"]
    assert texts["02_fp16.md"].endswith(f"""
## FP16 engine

### {WRITTEN}

- a file of 5 ms
- **Try:** write \\<b> in \\_\\_call\\_\\_
- *Writes nothing.*

## FP16 engine: speed

### As fast as the reference engine

- a number
- **Try:** look again
""")


def test_the_index_lists_the_pages_in_the_course_s_order(tmp_path: Path) -> None:
    for step in ("16_cases", "01_export", "11_bert"):
        claim = points_of(next(iter(BY_NAME[step].cells)))[0].name
        write_messages(tmp_path, rows_of(_figures(step, claim, "")))
    listed = re.findall(r"\((\d.*)\.md\)", (tmp_path / "README.md").read_text())
    assert listed == ["01_export", "11_bert", "16_cases"]


def test_a_message_of_several_points_comes_once() -> None:
    text = page("02_fp16", [_row(WRITTEN), _row(PLAN)], {})
    assert text.count("look again") == 1 and f"### {PLAN}\n" in text and f"Also: {WRITTEN}\n" in text
    linked = page("02_fp16", [_row(WRITTEN), _row(PLAN)], {"01_export": text})
    assert "look again" not in linked and f"As in [step 1](01_export.md): {PLAN}; {WRITTEN}.\n" in linked


def test_two_messages_of_a_point_stand_under_one_heading() -> None:
    text = page("02_fp16", [_row(PLAN), _row(PLAN, "look elsewhere")], {})
    assert text.count(f"### {PLAN}\n") == 1 and "look again\n\n- a number\n- **Try:** look elsewhere" in text


def test_what_was_drawn_is_left_out() -> None:
    first = "build(run, batch=5, {'a': 1}): rates[0]['b'] = 7, rates[1]['b'] = 8"
    draws = [_row(PLAN, expected=text) for text in (first, first.replace("= 7", "= 9"))]
    assert "\n- build(…): rates[…] = …, …\n" in page("02_fp16", draws, {})
    alone = "17 from slow(3.25, 4), the operator ABCDEFGHIJKL, 93,341 bytes (line 3 of build); it printed: a lot"
    assert "\n- 17 from slow(…, 4), the operator … bytes\n" in page("02_fp16", [_row(PLAN, expected=alone)], {})


def test_what_was_found_is_told_where_it_says_more() -> None:
    texts = [
        page("02_fp16", [_row(PLAN, found=found)], {})
        for found in ("no number", "TypeError: cannot convert this value")
    ]
    assert ["a number → " in text for text in texts] == [False, True]


def test_an_exception_of_the_student_s_code_counts_only_without_another_message() -> None:
    raised = _row(PLAN, "read line 3 of build again", "build to run without an exception")
    assert "read line … of build again" in page("02_fp16", [raised], {})
    assert "read line" not in page("02_fp16", [raised, _row(PLAN)], {})


def test_the_entry_that_loses_the_fewest_claims_speaks() -> None:
    broad, narrow = (_figures("02_fp16", "fp16.plan", "")["entries"][0] for _ in range(2))
    broad["lost"]["fp16.written"], broad["about"] = broad["lost"]["fp16.plan"], "Returns nothing at all."
    causes = {row["title"]: row["cause"] for row in rows_of({"entries": [broad, narrow]})}
    assert causes == {PLAN: "Writes nothing.", WRITTEN: "Returns nothing at all."}


def test_the_index_is_what_a_run_writes(tmp_path: Path) -> None:
    shutil.copytree(PAGES, tmp_path / "pages")
    write_messages(tmp_path / "pages", rows_of({"entries": []}))
    assert (tmp_path / "pages" / "README.md").read_text() == (PAGES / "README.md").read_text()


def test_only_claims_of_steps_that_ran_can_lack_a_message() -> None:
    claims = [claim.name for cell, about in CELLS.items() if about.step == "13_compilers" for claim in points_of(cell)]
    assert claims_without_message(_figures("13_compilers", claims[0])) == claims[1:]


@pytest.mark.parametrize("step", GRADED)
def test_the_pages_have_every_point_and_nothing_that_a_run_draws(step: str) -> None:
    text = (PAGES / f"{step}.md").read_text()
    assert [claim.title for cell in BY_NAME[step].cells for claim in points_of(cell) if claim.title not in text] == []
    assert re.findall(r"/tmp|\d{5,}|\d\.\d{3,}|\[TRT\]", text) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", [["--quick"], ["--name", "flag_forgotten"]])
def test_a_part_of_a_step_writes_no_messages(tmp_path: Path, part: list[str]) -> None:
    command = [sys.executable, "-m", "tests.submissions", *part, "--messages", str(tmp_path / "pages")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "leave out --name, --quick" in done.stderr and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
