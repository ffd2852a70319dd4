"""What a benchmark is asked for: how long to measure, what to measure beside the engines, and in which streams."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trtcpu.errors import InputError
from trtlab.options import MOST, Amount, Count, Counts

MOST_STREAMS = 64
_CALLS, _TIMED_CALLS = 1000, 100


@Parameter(name="*")
@dataclass(frozen=True)
class BenchOptions:
    """How long to measure each runner at each batch: at least `calls` calls and `duration_s` seconds.

    From `limit_s` seconds on, missing calls are not waited for (except the first three), so a result can have fewer.
    """

    batch_sizes: Counts = (1, 4, 8, 16, 32)
    """Images per batch; several after one flag."""
    iterations: Count | None = None
    """At least so many executions of each: 1000, or 100 where --duration is given."""
    warmup_ms: Annotated[Amount, Parameter(name="--warmup")] = 200.0
    """Milliseconds of warm-up of each, not counted (as trtexec's)."""
    duration_s: Annotated[Amount, Parameter(name="--duration")] = 0.0
    """At least so many seconds of timing of each (as trtexec's)."""
    limit_s: Annotated[Amount, Parameter(name="--limit")] = 60.0
    """Seconds from which on missing executions are left out."""

    def __post_init__(self) -> None:
        wrong = [batch for batch in self.batch_sizes if batch < 1]
        if wrong or not self.batch_sizes:
            raise InputError(f"--batch-sizes must be 1 or more, found {wrong or 'none'}; try --batch-sizes 1 8 32")
        if self.calls < 1:
            raise InputError(f"--iterations must be 1 or more, not {self.calls}")
        times = {"--warmup (ms)": self.warmup_ms, "--duration (s)": self.duration_s, "--limit (s)": self.limit_s}
        for name, value in times.items():
            if not 0 <= value <= MOST:
                raise InputError(f"{name} must be 0 to {MOST}, not {value}")

    @property
    def calls(self) -> int:
        """The calls that are waited for."""
        usual = _TIMED_CALLS if self.duration_s > 0 else _CALLS
        return usual if self.iterations is None else self.iterations


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
    """Which points to measure: each number of streams, with CUDA graphs besides where asked, for `seconds` each.

    With `copies`, every execution copies its inputs in and its outputs out. Without any of the three, nothing is.
    """

    streams: Counts = ()
    """Engines' throughput in so many streams at once; several numbers after one flag."""
    cuda_graphs: bool = False
    """In streams: with CUDA graphs besides."""
    copies: Annotated[bool, Parameter(name="--with-copies")] = False
    """In streams: copy inputs in and outputs out each time."""
    seconds: Annotated[float, Parameter(parse=False)] = 1.0

    def __post_init__(self) -> None:
        wrong = [number for number in self.streams if not 1 <= number <= MOST_STREAMS]
        if wrong:
            found = ", ".join(map(str, wrong))
            raise InputError(f"--streams must be 1 to {MOST_STREAMS}, found {found}; try --streams 1 2 4")

    @property
    def numbers(self) -> list[int]:
        """The numbers of streams, in order."""
        return sorted({*self.streams} or {1})

    def __bool__(self) -> bool:
        return bool(self.streams or self.cuda_graphs or self.copies)
