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

    Attributes:
        batch_sizes: Images per batch; several after one flag. 1 4 8 16 32 if left out.
        iterations: At least so many executions of each: 1000, or 100 where --duration is given.
        warmup_ms: Milliseconds of warm-up of each, not counted (as trtexec's).
        duration_s: At least so many seconds of timing of each (as trtexec's).
        limit_s: Seconds from which on missing executions are left out.
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
    """What is measured beside engines.

    Attributes:
        pytorch: Baseline: this model in PyTorch eager, float32; all that export --model takes.
        arch: What a state dict of --pytorch belongs to.
        pytorch_fp16: Baseline: the PyTorch model in half precision too.
        torch_compile: Baseline: torch.compile too.
        ort: Baseline: this ONNX file in ONNX Runtime.
        data: Data set whose weights the PyTorch model has.
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
    """Which points to measure: each number of streams, with CUDA graphs besides where asked.

    With `copies`, every execution copies its inputs in and its outputs out. Without any of the three, nothing is.

    Attributes:
        streams: Engines' throughput in so many streams at once; several numbers after one flag.
        cuda_graphs: In streams: with CUDA graphs besides.
        copies: In streams: copy inputs in and outputs out each time.
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
