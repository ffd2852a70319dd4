"""One run of trtexec as its log tells it."""

import re
from dataclasses import dataclass, field

STATISTICS = ("min_ms", "max_ms", "mean_ms", "median_ms", "p90_ms", "p95_ms", "p99_ms")
"""What is printed of a metric, by the keys of our JSON."""

_GIVEN_SHAPE = re.compile(r"--(?:shapes|optShapes)=[^:=\s]+:(\d+)x")
_GIVEN_BATCH = re.compile(r"--batch=(\d+)")
_GIVEN_STREAMS = re.compile(r"--(?:infStreams|streams)=(\d+)")


@dataclass
class LogRun:
    """One run of a log. `metrics` maps latency, enqueue, h2d, compute, d2h (and end_to_end) to statistics in ms."""

    throughput_qps: float = 0.0
    metrics: dict[str, dict[str, float | None]] = field(default_factory=dict)
    total_host_walltime_s: float | None = None
    total_compute_s: float | None = None
    tensorrt_version: str | None = None
    device: str | None = None
    model: str | None = None
    precision: str | None = None
    workspace_mb: float | None = None
    logged_streams: int | None = None
    shape_batch: int | None = None
    implicit_batch: int | None = None
    queries: int | None = None
    command: str | None = None
    passed: bool | None = None
    whole: bool = False
    warnings: list[str] = field(default_factory=list)

    @property
    def batch(self) -> int | None:
        """Images per query as the log has it, or as its command asked for; None where neither says."""
        if self.implicit_batch or self.shape_batch:
            return self.implicit_batch or self.shape_batch
        given = _GIVEN_SHAPE.search(self.command or "") or _GIVEN_BATCH.search(self.command or "")
        return int(given[1][:9]) or None if given else None

    @property
    def streams(self) -> int | None:
        """Executions in flight, as the log has them, or as its command asked for; None where neither says."""
        given = _GIVEN_STREAMS.search(self.command or "")
        return self.logged_streams or (int(given[1][:9]) if given else None)

    @property
    def counts_images(self) -> bool:
        """Whether the throughput is in images already: the batch is an implicit one."""
        explicit = self.shape_batch or _GIVEN_SHAPE.search(self.command or "")
        return bool(self.implicit_batch or (not explicit and _GIVEN_BATCH.search(self.command or "")))

    def images_per_s(self, batch: int) -> float:
        """Return images per second for `batch` images a query (see the module's note on implicit batches)."""
        return self.throughput_qps * (1 if self.counts_images else batch)
