"""The points of step 3 that judge functions alone, over many seeds: right ways keep them, wrong ones lose them."""

from contextlib import nullcontext

import numpy as np
import pytest

from helpers.checks.missed import Missed
from helpers.checks.points import s03_dynamic
from helpers.checks.points.case import Case
from helpers.checks.probes.student import Student
from tests.submissions.bank import Entry, load_bank, patched_cells

SEEDS = range(50)
BANK = [entry for entry in load_bank("03_dynamic") if entry.cell == "saturation"]


@pytest.mark.parametrize("entry", BANK, ids=lambda entry: entry.name)
def test_the_banks_rules_are_decided_alike_for_every_seed(entry: Entry) -> None:
    code = next(
        cell.source for cell in patched_cells(entry) if cell.metadata.get("nbgrader", {}).get("grade_id") == entry.cell
    )
    exec(code, cells := {"np": np, "measured_throughput": {1: 90.0, 4: 180.0, 16: 200.0, 32: 205.0}})
    student = Student.in_process({"saturation_batch": cells["saturation_batch"]})
    for seed in SEEDS:
        with pytest.raises(Missed) if "dynamic.saturation" in entry.loses else nullcontext():
            s03_dynamic.saturation(Case(student, seed))
