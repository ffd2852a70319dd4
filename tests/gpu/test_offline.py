"""Streams, copies and CUDA graphs on a real GPU: what a graph computes is what ONNX Runtime computes."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from helpers.engine.backend import ENGINE
from helpers.engine.cuda_graphs import why_no_graphs
from tests.trtlab.tiny_models import SIZE, tiny_onnx
from trtlab.building.build import BuildOptions, build_engine
from trtlab.timing.buffers import BufferPool
from trtlab.timing.offline import RING, OfflineEngine

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
def test_graphs_in_several_streams_compute_what_onnx_runtime_computes(onnx: Path, copies: bool) -> None:
    assert why_no_graphs() is None
    session = onnxruntime.InferenceSession(str(onnx), providers=["CPUExecutionProvider"])
    random = np.random.default_rng(3)
    with BufferPool() as pool, OfflineEngine(onnx.with_suffix(".engine"), 3, pool, copies=copies) as running:
        for batch in (4, 1):
            shape = (batch, 3, SIZE, SIZE)
            feeds = [
                {"input": random.standard_normal(shape, dtype=np.float32)} for _ in range(3 * (RING if copies else 1))
            ]
            running.bind(batch, feeds)
            running.record_graphs(3)
            for lane in running.lanes:
                for slot in lane.slots:
                    slot.host["output"].fill(np.nan)
            for _ in range(4):
                for lane in running.lanes:
                    lane.enqueue(graphs=True)
            for feed, outputs in zip(feeds, running.outputs(), strict=True):
                np.testing.assert_allclose(outputs["output"], session.run(None, feed)[0], rtol=1e-3, atol=1e-4)


def test_a_graph_reads_what_the_host_wrote_after_it_was_recorded(onnx: Path) -> None:
    session = onnxruntime.InferenceSession(str(onnx), providers=["CPUExecutionProvider"])
    later = np.random.default_rng(5).standard_normal((2, 3, SIZE, SIZE), dtype=np.float32)
    with BufferPool() as pool, OfflineEngine(onnx.with_suffix(".engine"), 1, pool, copies=True) as running:
        running.bind(2)
        running.record_graphs(1)
        running.lanes[0].slots[0].host["input"][:] = later
        running.lanes[0].enqueue(graphs=True)
        expected = session.run(None, {"input": later})[0]
        np.testing.assert_allclose(running.outputs()[0]["output"], expected, rtol=1e-3, atol=1e-4)
