"""Step 12's points over many seeds, on every entry of the bank: right ways keep them, wrong ones lose them.

The solution is asked too: its operations against PyTorch's counter, its reader against the pipeline's.
"""

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s12_layer_profiling import bounds, files, times
from helpers.checks.probes.student import Student
from helpers.engine.backend import trt
from helpers.engine.fused_layers import LayerGraph
from tests.submissions.bank import Entry, load_bank, patched_cells
from tests.trtlab.tiny_models import SIZE, TinyNet, tiny_onnx
from trtlab.trtexec.exports import summarise_export

SEEDS = range(6)
POINTS = {
    "layer_times_todo": {
        "layers.medians": times.medians,
        "layers.counted": times.counted,
        "layers.names": times.names,
        "layers.slowest": times.ranked,
    },
    "layer_bounds_todo": {
        "layers.convolutions": bounds.convolutions,
        "layers.others": bounds.others,
        "layers.moved": bounds.moved,
        "layers.bound": bounds.bounds,
    },
    "read_trtexec_profile": {
        "trtexec.medians": files.with_medians,
        "trtexec.averages": files.averages,
        "trtexec.repeated": files.repeated,
        "trtexec.wrong_files": files.wrong_files,
    },
}
STEP = "12_layer_profiling"
BANK = [entry for entry in load_bank(STEP) if entry.cell]
SOLUTION = Entry(STEP, "solution", "solution")


def _functions(entry: Entry) -> dict[str, Any]:
    """Return what the TODO cells define with the entry's patch."""
    found: dict[str, Any] = {"np": np, "json": json, "statistics": statistics, "Path": Path, "trt": trt}
    for cell in patched_cells(entry):
        if cell.metadata.get("nbgrader", {}).get("grade_id") in POINTS:
            exec(cell.source, found)
    return found


@pytest.mark.parametrize("entry", BANK, ids=lambda entry: entry.name)
def test_every_seed_decides_an_entry_of_the_bank_alike(entry: Entry) -> None:
    functions, expected = _functions(entry), set(entry.loses or ()) - {"layers.engine"}
    for seed in SEEDS:
        case, lost = Case(Student.in_process(functions), seed), set()
        for claim, point in POINTS[entry.cell].items():
            try:
                assert point(case)
            except Missed:
                lost.add(claim)
        assert lost == expected, seed


def test_the_solution_counts_the_operations_that_pytorch_counts(tmp_path: Path) -> None:
    graph = LayerGraph.load(tiny_onnx(tmp_path), {"input": (3, 3, SIZE, SIZE)})
    products = [graph.layer([name]) for name, node in graph.nodes.items() if node.op in ("Conv", "Gemm", "MatMul")]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        TinyNet().eval()(torch.zeros(3, 3, SIZE, SIZE))
    layer_flops = _functions(SOLUTION)["layer_flops"]
    assert sum(map(layer_flops, products)) == counter.get_total_flops()


def test_the_solution_reads_what_the_pipeline_reads_of_a_profile(tmp_path: Path) -> None:
    layers = [
        {"name": f"/layer{n}/Conv", "timeMs": 4.0 * n, "averageMs": 0.1 * n, "medianMs": 0.09 * n, "percentage": 10.0}
        for n in (3, 1, 2)
    ]
    exported = [{"count": 40}, *layers]
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(exported))
    rows = summarise_export(exported)["layers"]
    assert _functions(SOLUTION)["read_trtexec_profile"](path) == {row["name"]: row["median_ms"] for row in rows}


def test_a_cold_run_moves_every_median_that_it_is_among() -> None:
    """What the point about the warm-up rests on."""
    case = Case(Student.in_process({}), 0)
    warm = times._runs(case, "warm", 3)
    cold = times._cold(times._runs(case, "cold", 4))
    for (_, right), (_, wrong) in zip(times._expected(warm), times._expected(cold + warm), strict=True):
        assert wrong > 2 * right


def test_the_expected_times_are_numpys_medians() -> None:
    runs = times._runs(Case(Student.in_process({}), 1), "runs", 6)
    table = np.array([[ms for _, ms in run] for run in runs])
    assert np.allclose([ms for _, ms in times._expected(runs)], np.median(table, axis=0))
