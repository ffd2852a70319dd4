"""`bench --streams`: images per second of engines in one and several streams, with and without CUDA graphs.

Two ways to feed a stream. With the data resident on the device, it executes the same batch again and again: what the
engine itself can do. With copies, each execution is preceded by the copy of its inputs from page-locked memory and
followed by the copy of its outputs back; within a stream these three follow each other, so it takes two streams until
one's copies overlap the other's execution.

Allocating page-locked memory costs milliseconds, and freeing device memory may wait for the whole GPU: neither belongs
into a loop that serves batches. So all buffers are made at once, for the engine's largest batch.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from helpers.engine.backend import ENGINE, trt
from helpers.engine.cuda_graphs import Graph, capture, why_no_graphs
from trtcpu.errors import EngineError
from trtlab.engines.inference import InferenceEngine
from trtlab.timing.bench import measure_throughput
from trtlab.timing.options import StreamOptions
from trtlab.timing.runners import Runner

_PER_STREAM = 8  # executions in flight, a stream: the streams run dry together once in so many


class Lane(InferenceEngine):
    """A stream with an execution context and buffers of its own; executions of one lane follow each other."""

    def __init__(self, source: Path, copies: bool, shared: InferenceEngine | None) -> None:
        self._copies, self._batch = copies, 0
        self._graph: Graph | None = None
        super().__init__(source, shared)

    def bind(self, batch_size: int) -> None:
        """Make ready for a batch of seeded noise: shapes set, inputs uploaded, executed once."""
        if self._batch != batch_size:
            self.synchronize()
            self._drop_graph()
            self._batch = batch_size
            super().bind(batch_size)
            self.execute_ms()

    def record_graph(self) -> None:
        """Record an execution as a graph, after TensorRT has done it once; once is enough.

        Raises:
            EngineError: it cannot be recorded.
        """
        self._graph = self._graph or capture(self.stream, self.enqueue)

    def _drop_graph(self) -> None:
        if self._graph:
            self._graph.close()
        self._graph = None

    def enqueue(self, graph: bool = False) -> None:
        """Put one execution on the stream, and its copies if they take part; `graph` launches what was recorded."""
        if graph:
            self._graph.launch(self.stream)
            return
        if self._copies:
            self.copy_in()
        super().enqueue()
        if self._copies:
            self.copy_out()

    def close(self) -> None:
        """Wait, then free the graph and what the engine has."""
        self._wait_out()
        self._drop_graph()
        super().close()


@contextlib.contextmanager
def opened_lanes(source: Path, streams: int, *, copies: bool = False) -> Iterator[list[Lane]]:
    """Load an engine in `streams` streams, each with a context and buffers.

    On TensorRT 10 and the CPU engine the contexts share one deserialized engine. On TensorRT 8 two contexts cannot have
    the same optimization profile (it ends the process), so each stream deserializes the engine for itself, as trtexec's
    --streams does there: its weights are in memory once a stream.

    Raises:
        InputError: the file is missing or no engine.
        EngineError: there is not memory enough for that many contexts and buffers.
    """
    shared = ENGINE != "tensorrt" or int(trt.__version__.partition(".")[0]) >= 10
    lanes: list[Lane] = []
    with contextlib.ExitStack() as stack:
        for _ in range(streams):
            first = lanes[0] if lanes and shared else None
            lanes.append(stack.enter_context(Lane(source, copies, first)))
        yield lanes


class StreamRunner(Runner):
    """Streams of an engine, which `alone` runs by itself; executions go to each in turn.

    `about` is what its rows say of it.
    """

    def __init__(self, lanes: Sequence[Lane], alone: Runner, cuda_graphs: bool, copies: bool) -> None:
        self._lanes, self._turns, self.cuda_graphs = lanes, itertools.cycle(lanes), cuda_graphs
        words = {f"{len(lanes)} stream{'s' if len(lanes) > 1 else ''}": True, "graphs": cuda_graphs, "copies": copies}
        how = ", ".join(word for word, is_so in words.items() if is_so)
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
                lane.record_graph()

    def enqueue(self) -> None:
        next(self._turns).enqueue(self.cuda_graphs)

    def synchronize(self) -> None:
        for lane in self._lanes:
            lane.synchronize()


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
        note: called with one line if CUDA graphs were asked for and there are none.

    Returns:
        JSON rows by batch size, then engine, then streams: `name` is the engine's, `how` says how it ran ("2 streams,
        graphs"), `images_per_s` and `executions` (batches) are of all streams together.
    """
    with stream_runners(engines, options, note) as runners:
        found = measure_throughput(runners, batch_sizes, seconds=seconds, progress=progress)
        known = {runner.name: runner for runner in runners}
        return [{**asdict(result), **known[result.name].about} for result in found]


@contextlib.contextmanager
def stream_runners(
    engines: Sequence[tuple[Path, Runner]], options: StreamOptions, note: Callable[[str], None]
) -> Iterator[list[StreamRunner]]:
    """Load every engine in as many streams as are asked for at most.

    An engine whose contexts and buffers find no memory is left out with a note.
    """
    without = why_no_graphs() if options.cuda_graphs else None
    if without:
        note(f"measured without CUDA graphs: {without}")
    runners: list[StreamRunner] = []
    with contextlib.ExitStack() as stack:
        for path, alone in engines:
            try:
                lanes = stack.enter_context(opened_lanes(path, options.numbers[-1], copies=options.copies))
            except EngineError as error:
                note(f"{alone.name} is not measured in streams: {error}; fewer streams need less memory")
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
        lane.record_graph()
    except EngineError as error:
        note(f"{alone.name} is measured without CUDA graphs: {error}")
        return False
    return True
