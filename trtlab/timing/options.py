"""Options of a benchmark: how long to measure, which baselines, and how many streams."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from trtlab.options import Amount, Count, Counts

USUAL_BATCHES = (1, 4, 8, 16, 32)


@Parameter(name="*")
@dataclass(frozen=True)
class BenchOptions:
    """How long to measure each runner at each batch: at least `calls` calls and `duration_s` seconds.

    After `limit_s` seconds no more calls are made, except the first three. A result can then have fewer calls.

    Attributes:
        batch_sizes: Batch sizes to measure. Default: 1 4 8 16 32.
        iterations: Minimum number of timed runs per engine and batch. Default: 1000, or 100 with --duration.
        warmup_ms: Warm-up before timing, in milliseconds.
        duration_s: Minimum time to measure each engine and batch, in seconds.
        limit_s: Stop timing an engine after this many seconds.
    """

    batch_sizes: Counts = ()
    iterations: Count | None = None
    warmup_ms: Annotated[Amount, Parameter(name="--warmup")] = 200.0
    duration_s: Annotated[Amount, Parameter(name="--duration")] = 0.0
    limit_s: Annotated[Amount, Parameter(name="--limit")] = 60.0

    @property
    def calls(self) -> int:
        """The calls that are waited for."""
        return self.iterations or (100 if self.duration_s > 0 else 1000)

    @property
    def batches(self) -> list[int]:
        """The batch sizes, in order."""
        return sorted({*(self.batch_sizes or USUAL_BATCHES)})


@Parameter(name="*")
@dataclass(frozen=True)
class Baselines:
    """What is measured next to the engines.

    Attributes:
        pytorch: Baseline: this model in eager PyTorch, float32. Takes what export --model takes.
        arch: Architecture of a state dict given to --pytorch.
        pytorch_fp16: Baseline: the PyTorch model in half precision.
        torch_compile: Baseline: the PyTorch model with torch.compile.
        ort: Baseline: this ONNX file in ONNX Runtime.
        data: Data set that the PyTorch model's weights were trained on.
    """

    pytorch: str | None = None
    arch: str | None = None
    pytorch_fp16: bool = False
    torch_compile: bool = False
    ort: Path | None = None
    data: str = "digits"


@Parameter(name="*")
@dataclass(frozen=True)
class StreamOptions:
    """Which points to measure: each number of streams, without and, on request, with CUDA graphs.

    With `copies`, every run copies its inputs in and its outputs out. Without any of the three, nothing is measured.

    Attributes:
        streams: Also measure throughput with this many streams at once; takes several numbers.
        cuda_graphs: With --streams: also with CUDA graphs.
        copies: With --streams: copy inputs and outputs at every run.
    """

    streams: Annotated[Counts, Parameter(validator=validators.Number(lte=64))] = ()
    cuda_graphs: bool = False
    copies: Annotated[bool, Parameter(name="--with-copies")] = False

    @property
    def numbers(self) -> list[int]:
        """The numbers of streams, in order."""
        return sorted({*self.streams} or {1})

    def __bool__(self) -> bool:
        return bool(self.streams or self.cuda_graphs or self.copies)
