"""The points of step 11 that judge functions alone, over many seeds: right ways keep them, wrong ones lose them."""

from typing import Any

import numpy as np
import pytest

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s11_bert import export, vectors
from helpers.checks.points.s11_bert.encoders import text_of
from helpers.checks.probes.student import Student
from helpers.toys.bert.encoder import INPUTS, LENGTHS, OUTPUTS
from tests.submissions.bank import Entry, load_bank, patched_cells

SEEDS = range(25)
CELLS = {"make_batches", "mean_pool"}
BANK = [entry for entry in load_bank("11_bert") if entry.cell in CELLS]
POINTS = {
    "bert.pooled": vectors.pooled,
    "bert.once": vectors.once,
    "bert.tight": vectors.tight,
    "bert.static": vectors.static,
    "bert.edges": vectors.edges,
}


def _functions(entry: Entry) -> dict[str, Any]:
    namespace: dict[str, Any] = {"np": np, "INPUTS": INPUTS, "LENGTHS": LENGTHS}
    for cell in patched_cells(entry):
        if cell.metadata.get("nbgrader", {}).get("grade_id") in CELLS:
            exec(cell.source, namespace)
    return namespace


@pytest.mark.parametrize("entry", BANK, ids=lambda entry: entry.name)
def test_every_seed_decides_an_entry_of_the_bank_alike(entry: Entry) -> None:
    functions, name = _functions(entry), entry.cell
    points = {claim: point for claim, point in POINTS.items() if (claim == "bert.pooled") == (name == "mean_pool")}
    for seed in SEEDS:
        case, lost = Case(Student.in_process(functions), seed), set()
        for claim, point in points.items():
            try:
                assert point(case)
            except Missed:
                lost.add(claim)
        assert lost == set(entry.loses or ()), seed


@pytest.mark.parametrize(
    ("name", "shape", "free"),
    [
        (INPUTS[0], ["batch", "length"], True),
        (INPUTS[0], ["batch", "batch"], False),
        (INPUTS[0], ["batch", 16], False),
        (INPUTS[0], ["batch"], False),
        (INPUTS[0], ["batch", "length", 3], False),
        (OUTPUTS[0], ["batch", "length", 32], True),
        (OUTPUTS[0], ["batch", "length", "width"], False),
        (OUTPUTS[1], ["batch", 32], True),
        (OUTPUTS[1], ["batch", "width"], False),
    ],
)
def test_an_axis_is_free_or_a_number_where_it_should_be(name: str, shape: list[str | int], free: bool) -> None:
    assert export._free(name, shape) is free


def test_texts_end_in_padding_and_one_row_has_none() -> None:
    for seed in SEEDS:
        text = text_of(np.random.default_rng(seed), 6, 20)
        mask = text["attention_mask"]
        assert mask.sum(axis=1).max() == 20 and mask.sum(axis=1).min() >= 1 and (np.diff(mask, axis=1) <= 0).all()
        assert all(values.dtype == np.int32 and not values[mask == 0].any() for values in text.values())
