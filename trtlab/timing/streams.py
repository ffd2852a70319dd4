"""`bench --streams`: images per second of engines in one and several streams, with and without CUDA graphs.

Two ways to feed a stream. With the data resident on the device, it executes the same batch again and again: what the
engine itself can do. With copies, each execution is preceded by the copy of its inputs from page-locked memory and
followed by the copy of its outputs back; within a stream these three follow each other, so it takes two streams until
one's copies overlap the other's execution.

Allocating page-locked memory costs milliseconds, and freeing device memory may wait for the whole GPU: neither belongs
into a loop that serves batches. So all buffers are made at once, for the largest batch.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from helpers.engine.backend import ENGINE, cuda, trt
from helpers.engine.cuda_graphs import Graph, capture, why_no_graphs
from trtcpu.errors import EngineError
from trtlab.engines.engine_log import LOG
from trtlab.engines.inference import deserialize, read_inputs, tensor_types
from trtlab.engines.tensors import batch_range, examples, volume
from trtlab.timing.bench import measure_throughput
from trtlab.timing.options import StreamOptions
from trtlab.timing.runners import Runner

_PER_STREAM = 8  # executions in flight, a stream: the streams run dry together once in so many

RING = 2  # buffers a stream has where copies take part: the host fills one while the other is on its way


@dataclass
class _Slot:
    """The buffers of one execution in flight, by tensor.

    `device` has device memory, `memory` as many bytes of page-locked memory; `host` is the part of that which the bound
    batch fills, in the tensor's shape and type.
    """

    device: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, np.ndarray] = field(default_factory=dict)
    host: dict[str, np.ndarray] = field(default_factory=dict)
    done: Any = field(default_factory=cuda.Event)


class Lane:
    """A stream with an execution context and a ring of slots; executions of one lane follow each other."""

    def __init__(self, engine: Any, source: Path, largest: int, copies: bool, stack: contextlib.ExitStack) -> None:
        self.engine, self._name, self._copies = engine, source.stem, copies
        self.inputs, self.output_types = read_inputs(engine, source), tensor_types(engine, trt.TensorIOMode.OUTPUT)
        self._types = {name: spec.dtype for name, spec in self.inputs.items()} | self.output_types
        self._batch: int | None = None
        self._addressed: _Slot | None = None
        self.stream = cuda.Stream()
        with LOG.collect() as messages:
            self.context = engine.create_execution_context()
        if self.context is None:
            raise EngineError(f"{self._name}: no context for another stream: {messages.text() or 'no reason given'}")
        least, _, most = batch_range(self.inputs)
        shapes = self._set_shapes(max(least, min(most, largest)))
        self.slots = [_Slot() for _ in range(RING if copies else 1)]
        for slot, (name, shape) in itertools.product(self.slots, shapes.items()):
            nbytes = max(1, volume(shape) * self._types[name].itemsize)
            slot.memory[name] = cuda.pagelocked_empty((nbytes,), np.uint8)
            slot.device[name] = cuda.mem_alloc(nbytes)
            stack.callback(slot.device[name].free)
        self._turns = itertools.cycle(enumerate(self.slots))
        self._graphs: list[Graph] = []  # of the first slots
        stack.callback(self.close)

    def _set_shapes(self, batch: int) -> dict[str, tuple[int, ...]]:
        """Set the inputs' shapes and return every tensor's."""
        for name, spec in self.inputs.items():
            self.context.set_input_shape(name, spec.at(batch, batch_range(self.inputs)))
        return {name: tuple(self.context.get_tensor_shape(name)) for name in self._types}

    def bind(self, batch: int) -> None:
        """Make ready for a batch of seeded noise: shapes set, inputs uploaded, an execution done in every slot."""
        if self._batch == batch:
            return
        self.stream.synchronize()
        self._drop_graphs()
        self._batch = batch
        shapes, feeds = self._set_shapes(batch), examples(self.inputs, batch)
        for slot in self.slots:
            for name, shape in shapes.items():
                nbytes = volume(shape) * self._types[name].itemsize
                slot.host[name] = slot.memory[name][:nbytes].view(self._types[name]).reshape(shape)
            for name, array in feeds.items():
                slot.host[name][...] = array
                cuda.memcpy_htod(slot.device[name], slot.host[name])
            self._issue(slot)
        self.stream.synchronize()

    def record_graphs(self) -> None:
        """Record each slot's work as a graph, after TensorRT has executed it once; once is enough.

        Raises:
            EngineError: it cannot be recorded.
        """
        for slot in self.slots[len(self._graphs) :]:
            self._issue(slot)
            self.stream.synchronize()
            self._graphs.append(capture(self.stream, lambda slot=slot: self._issue(slot)))

    def _drop_graphs(self) -> None:
        while self._graphs:
            self._graphs.pop().close()

    def enqueue(self, graphs: bool) -> None:
        """Put one execution on the stream, in the ring's next slot once what used that is done."""
        place, slot = next(self._turns)
        if self._copies:
            slot.done.synchronize()
        if graphs:
            self._graphs[place].launch(self.stream)
        else:
            self._issue(slot)
        if self._copies:
            slot.done.record(self.stream)

    def _issue(self, slot: _Slot) -> None:
        if self._addressed is not slot:
            for name, buffer in slot.device.items():
                self.context.set_tensor_address(name, int(buffer))
            self._addressed = slot
        if self._copies:
            for name in self.inputs:
                cuda.memcpy_htod_async(slot.device[name], slot.host[name], self.stream)
        if not self.context.execute_async_v3(self.stream.handle):
            raise EngineError(f"engine {self._name} refused to run: {LOG.last_error or 'no reason was logged'}")
        if self._copies:
            for name in self.output_types:
                cuda.memcpy_dtoh_async(slot.host[name], slot.device[name], self.stream)

    def close(self) -> None:
        """Wait, then free graphs and context; the buffers can be freed then."""
        with contextlib.suppress(getattr(cuda, "Error", EngineError)):  # an execution's error is not the closing's
            self.stream.synchronize()
        self._drop_graphs()
        self.context = self.engine = None


@contextlib.contextmanager
def opened_lanes(source: Path, streams: int, largest: int, *, copies: bool = False) -> Iterator[list[Lane]]:
    """Load an engine in `streams` streams, each with a context and buffers for batches up to `largest`.

    On TensorRT 10 and the CPU engine the contexts share one deserialized engine. On TensorRT 8 two contexts cannot have
    the same optimization profile (it ends the process), so each stream deserializes the engine for itself, as trtexec's
    --streams does there: its weights are in memory once a stream.

    Raises:
        InputError: the file is missing or no engine.
        EngineError: there is not memory enough for that many contexts and buffers.
    """
    shared = ENGINE != "tensorrt" or int(trt.__version__.partition(".")[0]) >= 10
    engine = deserialize(source)[0]
    lanes: list[Lane] = []
    with contextlib.ExitStack() as stack:
        try:
            for number in range(streams):
                own = engine if shared or number == 0 else deserialize(source)[0]
                lanes.append(Lane(own, source, largest, copies, stack))
        except (MemoryError, getattr(cuda, "MemoryError", MemoryError)) as error:
            raise EngineError(
                f"no memory for {streams} streams of {source.stem} at batch {largest}; "
                "choose smaller batches or fewer streams"
            ) from error
        yield lanes


class StreamRunner(Runner):
    """Streams of an engine, which `alone` runs by itself; executions go to each in turn.

    `about` is what its rows say of it.
    """

    def __init__(self, lanes: Sequence[Lane], alone: Runner, cuda_graphs: bool, copies: bool) -> None:
        self._lanes, self._turns, self.cuda_graphs = lanes, itertools.cycle(lanes), cuda_graphs
        words = [f"{len(lanes)} stream{'s' if len(lanes) > 1 else ''}", *(["graphs"] if cuda_graphs else [])]
        how = ", ".join([*words, *(["copies"] if copies else [])])
        self.name = f"{alone.name}, {how}"
        self.about = {
            "name": alone.name,
            "how": how,
            "streams": len(lanes),
            "cuda_graphs": cuda_graphs,
            "copies": copies,
            "precision": alone.precision,
            "ran_in": alone.ran_in,
            "device": alone.device,
        }
        self.min_batch, self.max_batch = alone.min_batch, alone.max_batch
        self.in_flight = _PER_STREAM * len(lanes)

    def bind(self, batch_size: int) -> None:
        for lane in self._lanes:
            lane.bind(batch_size)
            if self.cuda_graphs:
                lane.record_graphs()

    def enqueue(self) -> None:
        next(self._turns).enqueue(self.cuda_graphs)

    def synchronize(self) -> None:
        for lane in self._lanes:
            lane.stream.synchronize()


def measure_streams(
    engines: Sequence[tuple[Path, Runner]],
    batch_sizes: Sequence[int],
    options: StreamOptions,
    *,
    seconds: float,
    progress: Callable[[str], None] = lambda text: None,
    note: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """Measure every engine at every batch size and number of streams, in turns.

    Args:
        engines: files, each with the runner that runs it alone.
        seconds: how long each point is measured.
        note: called with one line where CUDA graphs were asked for and there are none.

    Returns:
        JSON rows by batch size, then engine, then streams: `name` is the engine's, `how` says how it ran ("2 streams,
        graphs"), `images_per_s` and `executions` (batches) are of all streams together.
    """
    with stream_runners(engines, max(batch_sizes), options, note) as runners:
        found = measure_throughput(runners, batch_sizes, seconds=seconds, progress=progress)
        known = {runner.name: runner for runner in runners}
        return [{**asdict(result), **known[result.name].about} for result in found]


@contextlib.contextmanager
def stream_runners(
    engines: Sequence[tuple[Path, Runner]], largest: int, options: StreamOptions, note: Callable[[str], None]
) -> Iterator[list[StreamRunner]]:
    """Load every engine in as many streams as are asked for at most, for batches up to `largest`.

    An engine whose contexts and buffers find no memory is left out with a note.
    """
    without = why_no_graphs() if options.cuda_graphs else None
    if without:
        note(f"measured without CUDA graphs: {without}")
    runners: list[StreamRunner] = []
    with contextlib.ExitStack() as stack:
        for path, alone in engines:
            try:
                lanes = stack.enter_context(opened_lanes(path, options.numbers[-1], largest, copies=options.copies))
            except EngineError as error:
                note(f"{alone.name} is not measured in streams: {error}")
                continue
            wanted = options.cuda_graphs and not without
            graphs = (False, True) if wanted and _records(lanes[0], alone, note) else (False,)
            runners += [
                StreamRunner(lanes[:number], alone, graph, options.copies)
                for number in options.numbers
                for graph in graphs
            ]
        yield runners


def _records(lane: Lane, alone: Runner, note: Callable[[str], None]) -> bool:
    """Say whether an engine can be recorded as a graph; one that synchronises within an execution cannot."""
    lane.bind(alone.min_batch)
    try:
        lane.record_graphs()
    except EngineError as error:
        note(f"{alone.name} is measured without CUDA graphs: {error}")
        return False
    return True
