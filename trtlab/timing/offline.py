"""Offline throughput: one engine in several streams, each with a context and a ring of buffers of its own.

Two ways to feed it. With the data resident on the device, a stream executes the same batch again and again: what the
engine itself can do. With copies, each execution is preceded by the copy of its inputs from page-locked memory and
followed by the copy of its outputs back; within a stream these three follow each other, so it takes two streams until
one's copies overlap the other's execution.
"""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from helpers.engine.backend import ENGINE, cuda, trt
from helpers.engine.cuda_graphs import Graph, capture
from trtcpu.errors import EngineError
from trtlab.engines.engine_log import LOG
from trtlab.engines.inference import deserialize, read_inputs, read_output_types
from trtlab.engines.tensors import InputSpec, Shape, batch_range, examples, volume
from trtlab.timing.buffers import Buffer, BufferPool

RING = 2
"""Buffers a stream has where copies take part: the host fills one while the other is on its way."""

Feeds = Mapping[str, np.ndarray]


class _Slot:
    """The buffers of one execution in flight, and the graph recorded with them."""

    def __init__(self, buffers: dict[str, Buffer]) -> None:
        self.buffers = buffers
        self.host: dict[str, np.ndarray] = {}
        self.graph: Graph | None = None
        self.done = cuda.Event()

    def drop_graph(self) -> None:
        if self.graph is not None:
            self.graph.close()
            self.graph = None


class _Lane:
    """A stream with an execution context and a ring of slots; executions of one lane follow each other."""

    def __init__(self, owner: "OfflineEngine", engine: Any) -> None:
        self._owner, self.engine = owner, engine
        self.stream = cuda.Stream()
        self.slots: list[_Slot] = []
        self._next = 0
        self._addressed: _Slot | None = None
        with LOG.collect() as messages:
            self.context = engine.create_execution_context()
        if self.context is None:
            raise EngineError(f"{owner.name}: no context for another stream: {messages.text() or 'no reason given'}")

    def set_shapes(self, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
        """Set the inputs' shapes and return every tensor's."""
        for name, shape in shapes.items():
            if not self.context.set_input_shape(name, shape):
                raise EngineError(f"engine {self._owner.name} refuses {name} of shape {list(shape)}: {LOG.last_error}")
        return {**shapes, **{name: tuple(self.context.get_tensor_shape(name)) for name in self._owner.output_types}}

    def reserve(self, sizes: Mapping[str, int], ring: int) -> None:
        for _ in range(ring):
            slot = _Slot({})
            self.slots.append(slot)
            for name, nbytes in sizes.items():
                slot.buffers[name] = self._owner.pool.take(nbytes)

    def load(self, slot: _Slot, shapes: Mapping[str, Shape], feeds: Feeds) -> None:
        """Give a slot its inputs, in host and in device memory; nothing of the lane may be running."""
        slot.drop_graph()
        types = self._owner.types
        slot.host = {name: slot.buffers[name].view(shape, types[name]) for name, shape in shapes.items()}
        for name, array in feeds.items():
            np.copyto(slot.host[name], array, casting="unsafe")
            cuda.memcpy_htod(slot.buffers[name].device, slot.host[name])

    def record(self, slot: _Slot) -> None:
        """Record the slot's work as a graph, after TensorRT has executed it once."""
        if slot.graph is None:
            self.issue(slot)
            self.stream.synchronize()
            slot.graph = capture(self.stream, lambda: self.issue(slot))

    def enqueue(self, graphs: bool) -> None:
        """Put one execution on the stream, in the ring's next slot once what used that is done."""
        slot = self.slots[self._next]
        self._next = (self._next + 1) % len(self.slots)
        if self._owner.copies:
            slot.done.synchronize()
        if graphs:
            slot.graph.launch(self.stream)
        else:
            self.issue(slot)
        if self._owner.copies:
            slot.done.record(self.stream)

    def issue(self, slot: _Slot) -> None:
        if self._addressed is not slot:
            for name, buffer in slot.buffers.items():
                self.context.set_tensor_address(name, int(buffer.device))
            self._addressed = slot
        if self._owner.copies:
            for name in self._owner.inputs:
                cuda.memcpy_htod_async(slot.buffers[name].device, slot.host[name], self.stream)
        if not self.context.execute_async_v3(self.stream.handle):
            raise EngineError(f"engine {self._owner.name} refused to run: {LOG.last_error or 'no reason was logged'}")
        if self._owner.copies:
            for name in self._owner.output_types:
                cuda.memcpy_dtoh_async(slot.host[name], slot.buffers[name].device, self.stream)

    def close(self) -> None:
        """Wait, then free graphs and context and give the buffers back."""
        with contextlib.suppress(getattr(cuda, "Error", EngineError)):  # an execution's error is not the closing's
            self.stream.synchronize()
        for slot in self.slots:
            slot.drop_graph()
            for buffer in slot.buffers.values():
                self._owner.pool.give(buffer)
        self.slots = []
        self.context = self.engine = None


class OfflineEngine:
    """An engine in `streams` streams, each with a context and buffers for batches up to `largest`.

    On TensorRT 10 and the CPU engine the contexts share one deserialized engine. On TensorRT 8 two contexts cannot have
    the same optimization profile, so each stream deserializes the engine for itself, as trtexec's --streams does there:
    its weights are in memory once a stream.

    Attributes:
        name: the file's stem. inputs, output_types: its tensors. copies: whether executions copy in and out.
    """

    def __init__(
        self, source: str | Path, streams: int, pool: BufferPool, *, copies: bool = False, largest: int | None = None
    ) -> None:
        """Load an engine.

        Raises:
            InputError: the file is missing or no engine.
            EngineError: there is not memory enough for that many contexts and buffers.
        """
        self.name, self.pool, self.copies = Path(source).stem, pool, copies
        engine = deserialize(source)[0]
        self.inputs: dict[str, InputSpec] = read_inputs(engine, Path(source))
        self.output_types = read_output_types(engine)
        self.types = {name: spec.dtype for name, spec in self.inputs.items()} | self.output_types
        self.min_batch, _, most = batch_range(self.inputs)
        self.max_batch = most if largest is None else max(self.min_batch, min(most, largest))
        self.batch: int | None = None
        self.lanes: list[_Lane] = []
        try:
            for number in range(streams):
                shared = number == 0 or _profiles_are_shared()
                self.lanes.append(_Lane(self, engine if shared else deserialize(source)[0]))
                self._reserve(self.lanes[-1])
        except BaseException:
            self.close()
            raise

    def _reserve(self, lane: _Lane) -> None:
        shapes = lane.set_shapes(self._shapes(self.max_batch))
        sizes = {name: volume(shape) * self.types[name].itemsize for name, shape in shapes.items()}
        lane.reserve(sizes, RING if self.copies else 1)

    def _shapes(self, batch: int) -> dict[str, Shape]:
        return {name: spec.at(batch, batch_range(self.inputs)) for name, spec in self.inputs.items()}

    def bind(self, batch: int, feeds: Sequence[Feeds] | None = None) -> None:
        """Make every stream ready for a batch: shapes set, inputs uploaded, one execution done in each.

        Args:
            feeds: the inputs of each slot, stream by stream; by default seeded noise, the same for all.
        """
        if feeds is None and self.batch == batch:
            return
        self.synchronize()
        slots = [(lane, slot) for lane in self.lanes for slot in lane.slots]
        given = [examples(self.inputs, batch)] * len(slots) if feeds is None else feeds
        for (lane, slot), data in zip(slots, given, strict=True):
            lane.load(slot, lane.set_shapes(self._shapes(batch)), data)
        self.batch = batch
        for lane, slot in slots:
            lane.issue(slot)
        self.synchronize()

    def record_graphs(self, streams: int) -> None:
        """Record the bound batch as a graph for each slot of the first `streams` streams; once is enough.

        Raises:
            EngineError: it cannot be recorded.
        """
        for lane in self.lanes[:streams]:
            for slot in lane.slots:
                lane.record(slot)

    def synchronize(self) -> None:
        """Wait for every stream."""
        for lane in self.lanes:
            lane.stream.synchronize()

    def outputs(self) -> list[dict[str, np.ndarray]]:
        """Wait, and return every slot's outputs, stream by stream, in memory of their own."""
        self.synchronize()
        found = []
        for slot in (slot for lane in self.lanes for slot in lane.slots):
            if not self.copies:
                for name in self.output_types:
                    cuda.memcpy_dtoh(slot.host[name], slot.buffers[name].device)
            found.append({name: slot.host[name].copy() for name in self.output_types})
        return found

    def close(self) -> None:
        """Free contexts and graphs and give the buffers back to the pool; calling it again does nothing."""
        lanes, self.lanes = self.lanes, []
        for lane in lanes:
            lane.close()

    def __enter__(self) -> "OfflineEngine":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _profiles_are_shared() -> bool:
    """Say whether contexts may share an optimization profile; on TensorRT 8.6 it ends the process."""
    return ENGINE != "tensorrt" or int(trt.__version__.partition(".")[0]) >= 10
