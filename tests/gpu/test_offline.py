"""Streams, copies and CUDA graphs on a real GPU: what a graph computes is what ONNX Runtime computes."""

from pathlib import Path

import pytest

from helpers.engine.backend import ENGINE
from helpers.engine.cuda_graphs import why_no_graphs
from tests.trtlab.timing.test_streams import outputs_match
from tests.trtlab.tiny_models import tiny_onnx
from trtlab.building.build import BuildOptions, build_engine
from trtlab.timing.streams import opened_lanes

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(ENGINE != "tensorrt", reason="needs real TensorRT on an NVIDIA GPU"),
]


@pytest.fixture(scope="module")
def onnx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tiny_onnx(tmp_path_factory.mktemp("model"))
    build_engine(path, path.with_suffix(".engine"), BuildOptions(max_batch=4, opt_batch=4))
    return path


@pytest.mark.parametrize("copies", [False, True])
def test_graphs_compute_what_onnx_runtime_computes_of_data_that_came_after_recording(onnx: Path, copies: bool) -> None:
    assert why_no_graphs() is None
    with opened_lanes(onnx.with_suffix(".engine"), 3, copies=copies) as lanes:
        for batch in (4, 1):
            for lane in lanes:
                lane.bind(batch)
                lane.record_graph()
            outputs_match(onnx, lanes, batch, copies, graphs=True)
