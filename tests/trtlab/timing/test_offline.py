"""An engine in several streams: every stream's outputs are ONNX Runtime's, and nothing is left when it is closed."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from helpers.engine.backend import ENGINE, trt
from tests.trtlab.tiny_models import SIZE, tiny_onnx
from trtcpu.errors import EngineError, InputError
from trtlab.building.build import BuildOptions, build_engine
from trtlab.timing import offline
from trtlab.timing.buffers import BufferPool
from trtlab.timing.offline import RING, OfflineEngine


@pytest.fixture(scope="module")
def onnx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_onnx(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def engine(onnx: Path) -> Path:
    build_engine(onnx, onnx.with_suffix(".engine"), BuildOptions(max_batch=4, opt_batch=4))
    return onnx.with_suffix(".engine")


def _feeds(number: int, batch: int) -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(7)
    return [{"input": random.standard_normal((batch, 3, SIZE, SIZE), dtype=np.float32)} for _ in range(number)]


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("streams", [1, 3])
def test_every_stream_computes_what_onnx_runtime_computes_of_its_own_data(
    onnx: Path, engine: Path, streams: int, copies: bool
) -> None:
    session = onnxruntime.InferenceSession(str(onnx), providers=["CPUExecutionProvider"])
    with BufferPool() as pool, OfflineEngine(engine, streams, pool, copies=copies) as running:
        for batch in (4, 2):
            feeds = _feeds(streams * (RING if copies else 1), batch)
            running.bind(batch, feeds)
            for _ in range(5):
                for lane in running.lanes:
                    lane.enqueue(graphs=False)
            found = running.outputs()
            expected = [session.run(None, feed)[0] for feed in feeds]
            for outputs, right in zip(found, expected, strict=True):
                np.testing.assert_allclose(outputs["output"], right, rtol=1e-3, atol=1e-4)
            assert all(not np.array_equal(right, expected[0]) for right in expected[1:])


def test_with_copies_what_the_host_wrote_last_is_what_is_computed(onnx: Path, engine: Path) -> None:
    session = onnxruntime.InferenceSession(str(onnx), providers=["CPUExecutionProvider"])
    (feed,) = _feeds(1, 2)
    with BufferPool() as pool, OfflineEngine(engine, 1, pool, copies=True) as running:
        running.bind(2)
        lane = running.lanes[0]
        lane.slots[0].host["input"][:] = feed["input"]
        lane.enqueue(graphs=False)
        np.testing.assert_allclose(running.outputs()[0]["output"], session.run(None, feed)[0], rtol=1e-3, atol=1e-4)


def test_all_batches_and_the_next_engine_use_the_same_buffers(engine: Path) -> None:
    with BufferPool() as pool:
        for _ in range(2):
            with OfflineEngine(engine, 2, pool, copies=True) as running:
                for batch in (1, 4, 2):
                    running.bind(batch)
            assert pool.allocations == 2 * RING * 2  # streams, ring, input and output


def test_buffers_are_no_larger_than_the_largest_batch_to_come(engine: Path) -> None:
    with BufferPool() as pool, OfflineEngine(engine, 1, pool, largest=2):
        assert pool.allocated_bytes == 2 * (3 * SIZE * SIZE + 10) * 4


@pytest.mark.skipif(ENGINE != "cpu", reason="the CPU engine counts its device memory exactly")
def test_nothing_is_left_when_a_stream_cannot_be_made(engine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trtcpu.device.memory import allocated_bytes

    before, made = allocated_bytes(), []

    class Failing(offline._Lane):
        def __init__(self, *arguments: object) -> None:
            made.append(self)
            if len(made) == 3:
                raise EngineError("no context for another stream: out of memory")
            super().__init__(*arguments)

    monkeypatch.setattr(offline, "_Lane", Failing)
    with BufferPool() as pool:
        with pytest.raises(EngineError, match="out of memory"):
            OfflineEngine(engine, 4, pool)
        assert made[0].context is None and len(pool._idle) == pool.allocations == 4
    assert allocated_bytes() == before


def test_what_is_no_engine_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.engine").write_bytes(b"x" * 5000)
    for name in ("bad.engine", "missing.engine"):
        with BufferPool() as pool, pytest.raises(InputError, match=name):
            OfflineEngine(tmp_path / name, 2, pool)


@pytest.mark.skipif(ENGINE != "cpu", reason="TensorRT 8.6 cannot be asked to behave like 10")
@pytest.mark.parametrize(
    ("name", "version", "shared"), [("tensorrt", "8.6.0", False), ("tensorrt", "10.16.1", True), ("cpu", "8.6.0", True)]
)
def test_contexts_share_a_deserialized_engine_except_on_tensorrt_8(
    engine: Path, monkeypatch: pytest.MonkeyPatch, name: str, version: str, shared: bool
) -> None:
    monkeypatch.setattr(offline, "ENGINE", name)
    monkeypatch.setattr(trt, "__version__", version)
    with BufferPool() as pool, OfflineEngine(engine, 3, pool) as running:
        assert len({id(lane.engine) for lane in running.lanes}) == (1 if shared else 3)
