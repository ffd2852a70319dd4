"""The bank itself: every entry can be graded, every claim is lost by one, and what needs seconds is decided here.

The whole bank runs with `make submissions`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from solutions.checks.core.claim import CELLS, claims_of
from solutions.checks.core.decide import SEED_VARIABLE
from tests.submissions.bank import ROOT, Entry, load_bank, patched_cells

BANK = load_bank()
SEED = "2026"
"""The quick part is decided with one seed here, with many by `make seeds`."""


def test_the_bank_is_as_large_as_promised() -> None:
    kinds = [entry.kind for entry in BANK]
    assert kinds.count("wrong") >= 60 and kinds.count("right") >= 15


@pytest.mark.parametrize("entry", BANK, ids=[entry.title for entry in BANK])
def test_each_patch_fits_its_notebook_and_names_claims_of_its_cells(entry: Entry) -> None:
    for cell in patched_cells(entry):
        compile(cell.source, entry.title, "exec")
    decided = {claim.name for cell in entry.graded for claim in claims_of(cell)}
    assert set(entry.loses or ()) <= decided


def test_every_claim_is_lost_by_a_wrong_submission() -> None:
    lost = {name for entry in BANK if entry.kind == "wrong" for name in entry.loses}
    assert [claim.name for cell in CELLS for claim in claims_of(cell) if claim.name not in lost] == []


def test_a_quick_part_of_the_bank_that_loses_every_claim_is_decided_rightly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.submissions", "--quick", "--cover", "--out", str(tmp_path / "bank.json")]
    fixed = {**os.environ, SEED_VARIABLE: SEED}
    done = subprocess.run(command, cwd=ROOT, env=fixed, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    figures = json.loads((tmp_path / "bank.json").read_text())
    mistakes = ("accepted_wrong", "rejected_right", "lost_by_mistake", "failed_checks")
    assert {key: figures[key] for key in mistakes} == dict.fromkeys(mistakes, 0)
    quick = [entry for entry in BANK if entry.quick]
    lost = {name for entry in quick for name in entry.loses or ()}
    assert {name for row in figures["entries"] for name in row["lost"]} == lost
    assert figures["right"] == sum(entry.kind == "right" for entry in quick) > 8
