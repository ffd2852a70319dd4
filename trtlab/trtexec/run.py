"""One run of trtexec as its log tells it."""

import re
from dataclasses import dataclass, field

STATISTICS = ("min_ms", "max_ms", "mean_ms", "median_ms", "p90_ms", "p95_ms", "p99_ms")
"""What is printed of a metric, by the keys of our JSON."""

_GIVEN_SHAPES = re.compile(r"--(?:shapes|optShapes)=(\S+)")
_SHAPE = re.compile(r"([^:,\s]+):(\d+(?:x\d+)*)")
_IMAGES = 4  # dimensions
_GIVEN_BATCH = re.compile(r"--batch=(\d+)")
_GIVEN_STREAMS = re.compile(r"--(?:infStreams|streams)=(\d+)")


@dataclass
class LogRun:
    """One run of a log. `metrics` maps latency, enqueue, h2d, compute, d2h (and end_to_end) to statistics in ms."""

    throughput_qps: float | None = None
    metrics: dict[str, dict[str, float | None]] = field(default_factory=dict)
    total_host_walltime_s: float | None = None
    total_compute_s: float | None = None
    tensorrt_version: str | None = None
    device: str | None = None
    model: str | None = None
    precision: str | None = None
    workspace_mb: float | None = None
    logged_streams: int | None = None
    logged_shapes: dict[str, list[int]] = field(default_factory=dict)
    implicit_batch: int | None = None
    logged_queries: int | None = None
    command: str | None = None
    passed: bool | None = None
    whole: bool = False
    warnings: list[str] = field(default_factory=list)

    @property
    def shapes(self) -> dict[str, list[int]]:
        """The inputs' shapes as the log has them, or as its command asked for."""
        given = _GIVEN_SHAPES.search(self.command or "")
        found = _SHAPE.findall(given[1].replace("'", "").replace('"', "")) if given else []
        return self.logged_shapes or {name: sizes(shape) for name, shape in found}

    @property
    def batch(self) -> int | None:
        """Images per query: the implicit batch, or the first dimension that all inputs have; None where neither is."""
        given = _GIVEN_BATCH.search(self.command or "")
        if self.implicit_batch or (given and not self.shapes):
            return self.implicit_batch or int(given[1][:9]) or None
        first = {shape[0] for shape in self.shapes.values()}
        return first.pop() or None if len(first) == 1 else None

    @property
    def is_sure_of_its_batch(self) -> bool:
        """Whether the batch is an implicit one, or an image's, [N, C, H, W]; another first dimension may be none."""
        return all(len(shape) == _IMAGES for shape in self.shapes.values())

    @property
    def queries(self) -> int | None:
        """Executions that were timed; trtexec counts the images of an implicit batch."""
        batch = self.batch if self.counts_images else 1
        return self.logged_queries and self.logged_queries // (batch or 1)

    @property
    def qps(self) -> float | None:
        """Throughput as printed; trtexec 7 printed 0 for an explicit batch, and then queries by time."""
        if self.throughput_qps == 0 and self.logged_queries and self.total_host_walltime_s:
            return self.logged_queries / self.total_host_walltime_s
        return self.throughput_qps

    @property
    def streams(self) -> int | None:
        """Executions in flight, as the log has them, or as its command asked for; None where neither says."""
        given = _GIVEN_STREAMS.search(self.command or "")
        return self.logged_streams or (int(given[1][:9]) if given else None)

    @property
    def counts_images(self) -> bool:
        """Whether the throughput is in images already: the batch is an implicit one."""
        return bool(self.implicit_batch or (not self.shapes and _GIVEN_BATCH.search(self.command or "")))

    def images_per_s(self, batch: int) -> float:
        """Return images per second for `batch` images a query (see the module's note on implicit batches)."""
        return self.qps * (1 if self.counts_images else batch)


def sizes(shape: str) -> list[int]:
    """Return the dimensions of "8x3x224x224"."""
    return [int(size[:9]) for size in shape.split("x")]
