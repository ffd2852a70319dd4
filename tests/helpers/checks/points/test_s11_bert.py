"""The points of step 11 that judge functions alone, over many seeds: right ways keep them, wrong ones lose them."""

from typing import Any

import numpy as np
import pytest

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s11_bert import export, vectors
from helpers.checks.points.s11_bert.encoders import text_of
from helpers.checks.probes.student import Student
from helpers.toys.bert.encoder import INPUTS, LENGTHS
from tests.submissions.bank import Entry, load_bank, patched_cells

SEEDS = range(10)
TASKS = {"mean_pool": vectors.POOLING, "make_batches": vectors.BATCHING}
BANK = [entry for entry in load_bank("11_bert") if entry.cell in TASKS]


def _functions(entry: Entry) -> dict[str, Any]:
    namespace: dict[str, Any] = {"np": np, "INPUTS": INPUTS, "LENGTHS": LENGTHS}
    for cell in patched_cells(entry):
        if cell.metadata.get("nbgrader", {}).get("grade_id") in TASKS:
            exec(cell.source, namespace)
    return namespace


@pytest.mark.parametrize("entry", BANK, ids=lambda entry: entry.name)
def test_every_seed_decides_an_entry_of_the_bank_alike(entry: Entry) -> None:
    functions = _functions(entry)
    for seed in SEEDS:
        case, lost = Case(Student.in_process(functions), seed), set()
        for point in TASKS[entry.cell].points:
            try:
                assert point(case)
            except Missed:
                lost.add(point.name)
        assert lost == set(entry.loses or ()), seed


def test_an_axis_is_a_number_or_one_of_two_names() -> None:
    assert export._axes(["batch", "length", 32]) == ["first name", "second name", "number"]
    assert export._axes(["batch", "batch"]) == ["first name", "first name"]


def test_texts_end_in_padding_and_one_row_has_none() -> None:
    for seed in SEEDS:
        text = text_of(np.random.default_rng(seed), 6, 20)
        mask = text["attention_mask"]
        assert mask.sum(axis=1).max() == 20 and mask.sum(axis=1).min() >= 1 and (np.diff(mask, axis=1) <= 0).all()
        assert all(values.dtype == np.int32 and not values[mask == 0].any() for values in text.values())
