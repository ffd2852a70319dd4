"""What step 12's solution counts, against PyTorch's counter."""

from pathlib import Path

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

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
