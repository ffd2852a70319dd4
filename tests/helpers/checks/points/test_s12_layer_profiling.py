"""What step 12's solution counts, against PyTorch's counter, and what its points expect, against NumPy."""

from pathlib import Path

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from helpers.checks.points import s12_layer_profiling as room
from helpers.checks.points.case import Case
from helpers.checks.probes.student import Student
from helpers.engine.fused_layers import LayerGraph
from tests.submissions.bank import Entry, patched_cells
from tests.trtlab.tiny_models import SIZE, TinyNet, tiny_onnx


def test_the_solution_counts_the_operations_that_pytorch_counts(tmp_path: Path) -> None:
    step, functions = "12_layer_profiling", {"np": np}
    cells = patched_cells(Entry(step, "solution", "solution"))
    exec(next(cell.source for cell in cells if "def layer_flops" in cell.source), functions)
    graph = LayerGraph.load(tiny_onnx(tmp_path), {"input": (3, 3, SIZE, SIZE)})
    products = [graph.layer([name]) for name, node in graph.nodes.items() if node.op in ("Conv", "Gemm", "MatMul")]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        TinyNet().eval()(torch.zeros(3, 3, SIZE, SIZE))
    assert sum(map(functions["layer_flops"], products)) == counter.get_total_flops()


def test_the_expected_times_are_numpys_medians() -> None:
    def profile_layers(context: room._Context, run: object, runs: int, warmup: int) -> dict[str, float]:
        table = np.array([[ms for _, ms in times] for times in context._reported])
        context.runs = runs
        return dict(zip([name for name, _ in context._reported[0]], np.median(table, axis=0), strict=True))

    assert "4 layers" in room.medians(Case(Student.in_process({"profile_layers": profile_layers}), 1))
