"""What a benchmark is asked for: how long to measure, what to measure beside the engines, and in which streams."""

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

    From `limit_s` seconds on, missing calls are not waited for (except the first three), so a result can have fewer.
    """

    batch_sizes: Counts = ()
    """Images per batch; several after one flag. 1 4 8 16 32 if left out."""
    iterations: Count | None = None
    """At least so many executions of each: 1000, or 100 where --duration is given."""
    warmup_ms: Annotated[Amount, Parameter(name="--warmup")] = 200.0
    """Milliseconds of warm-up of each, not counted (as trtexec's)."""
    duration_s: Annotated[Amount, Parameter(name="--duration")] = 0.0
    """At least so many seconds of timing of each (as trtexec's)."""
    limit_s: Annotated[Amount, Parameter(name="--limit")] = 60.0
    """Seconds from which on missing executions are left out."""

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
    """What is measured beside engines."""

    pytorch: str | None = None
    """Baseline: this model in PyTorch eager, float32; all that export --model takes."""
    arch: str | None = None
    """What a state dict of --pytorch belongs to."""
    pytorch_fp16: bool = False
    """Baseline: the PyTorch model in half precision too."""
    torch_compile: bool = False
    """Baseline: torch.compile too."""
    ort: Path | None = None
    """Baseline: this ONNX file in ONNX Runtime."""
    data: str = "digits"
    """Data set whose weights the PyTorch model has."""


@Parameter(name="*")
@dataclass(frozen=True)
class StreamOptions:
    """Which points to measure: each number of streams, with CUDA graphs besides where asked.

    With `copies`, every execution copies its inputs in and its outputs out. Without any of the three, nothing is.
    """

    streams: Annotated[Counts, Parameter(validator=validators.Number(lte=64))] = ()
    """Engines' throughput in so many streams at once; several numbers after one flag."""
    cuda_graphs: bool = False
    """In streams: with CUDA graphs besides."""
    copies: Annotated[bool, Parameter(name="--with-copies")] = False
    """In streams: copy inputs in and outputs out each time."""

    @property
    def numbers(self) -> list[int]:
        """The numbers of streams, in order."""
        return sorted({*self.streams} or {1})

    def __bool__(self) -> bool:
        return bool(self.streams or self.cuda_graphs or self.copies)
