"""`bench --streams`: images per second of engines in one and several streams, with and without CUDA graphs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from helpers.engine.cuda_graphs import why_no_graphs
from trtcpu.errors import EngineError
from trtlab.timing.buffers import BufferPool
from trtlab.timing.offline import OfflineEngine
from trtlab.timing.options import StreamOptions
from trtlab.timing.runners import Runner
from trtlab.timing.throughput import Throughput, measure_throughput

_PER_STREAM = 8  # executions in flight, a stream: the streams run dry together once in so many

Note = Callable[[str], None]


@dataclass(frozen=True)
class StreamResult:
    """Throughput of one engine at one batch in `streams` streams, over `executions` batches of all streams.

    `name` is the engine's, `how` says how it ran: "2 streams, graphs".
    """

    name: str
    how: str
    batch: int
    streams: int
    cuda_graphs: bool
    copies: bool
    precision: str
    ran_in: str | None
    device: str
    images_per_s: float
    executions: int
    seconds: float

    def row(self) -> dict[str, Any]:
        """Return the result as the JSON row, which `trtlab report` reads."""
        return asdict(self)


class StreamRunner(Runner):
    """The first `streams` streams of an OfflineEngine; an execution goes to each in turn."""

    def __init__(self, engine: OfflineEngine, alone: Runner, streams: int, cuda_graphs: bool) -> None:
        """Measure `engine`, which `alone` runs by itself: names, precision and device are that runner's."""
        self._running, self.streams, self.cuda_graphs = engine, streams, cuda_graphs
        words = [f"{streams} stream{'s' if streams > 1 else ''}", *(["graphs"] if cuda_graphs else [])]
        self.how = ", ".join([*words, *(["copies"] if engine.copies else [])])
        self.name, self.engine = f"{alone.name}, {self.how}", alone.name
        self.precision, self.ran_in = alone.precision, alone.ran_in
        self.device, self.sample_shape = alone.device, alone.sample_shape
        self.min_batch, self.max_batch = engine.min_batch, engine.max_batch
        self.in_flight = _PER_STREAM * streams
        self._turn = 0

    @property
    def copies(self) -> bool:
        """Whether executions copy in and out."""
        return self._running.copies

    def bind(self, batch_size: int) -> None:
        self._running.bind(batch_size)
        if self.cuda_graphs:
            self._running.record_graphs(self.streams)

    def enqueue(self) -> None:
        self._running.lanes[self._turn].enqueue(self.cuda_graphs)
        self._turn = (self._turn + 1) % self.streams

    def synchronize(self) -> None:
        for lane in self._running.lanes[: self.streams]:
            lane.stream.synchronize()

    def result(self, measured: Throughput) -> StreamResult:
        """Return the throughput of this runner with what it is of."""
        about = {key: getattr(self, key) for key in ("how", "streams", "cuda_graphs", "copies", "precision", "ran_in")}
        return StreamResult(**about, device=self.device, **{**asdict(measured), "name": self.engine})


def measure_streams(
    engines: Sequence[tuple[Path, Runner]],
    batch_sizes: Sequence[int],
    options: StreamOptions,
    *,
    progress: Callable[[str], None] = lambda text: None,
    note: Note = lambda text: None,
) -> list[StreamResult]:
    """Measure every engine at every batch size and number of streams, in turns.

    Args:
        engines: files, each with the runner that runs it alone.
        note: called with one line where CUDA graphs were asked for and there are none.

    Returns:
        Results by batch size, then engine, then streams.
    """
    with stream_runners(engines, max(batch_sizes), options, note) as runners:
        found = measure_throughput(runners, batch_sizes, seconds=options.seconds, progress=progress)
        known = {runner.name: runner for runner in runners}
        return [known[result.name].result(result) for result in found]


@contextmanager
def stream_runners(
    engines: Sequence[tuple[Path, Runner]], largest: int, options: StreamOptions, note: Note = lambda text: None
) -> Iterator[list[StreamRunner]]:
    """Load every engine in as many streams as are asked for at most, for batches up to `largest`.

    An engine whose contexts and buffers find no memory is left out with a note.
    """
    without = why_no_graphs() if options.cuda_graphs else None
    if without:
        note(f"measured without CUDA graphs: {without}")
    wanted = options.cuda_graphs and not without
    runners: list[StreamRunner] = []
    with ExitStack() as stack:
        pool = stack.enter_context(BufferPool())
        for path, alone in engines:
            try:
                engine = OfflineEngine(path, max(options.numbers), pool, copies=options.copies, largest=largest)
            except EngineError as error:
                note(f"{alone.name} is not measured in streams: {error}")
                continue
            stack.enter_context(engine)
            graphs = (False, True) if wanted and _records(engine, alone.name, note) else (False,)
            runners += [StreamRunner(engine, alone, number, graph) for number in options.numbers for graph in graphs]
        yield runners


def _records(engine: OfflineEngine, name: str, note: Note) -> bool:
    """Say whether an engine can be recorded as a graph; one that synchronises within an execution cannot."""
    engine.bind(engine.min_batch)
    try:
        engine.record_graphs(1)
    except EngineError as error:
        note(f"{name} is measured without CUDA graphs: {error}")
        return False
    return True
