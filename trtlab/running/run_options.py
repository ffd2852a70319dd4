"""What `trtlab run` is asked for: model, data, and how long to measure."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtlab.images.preprocessing_record import NOTHING, Asked


@dataclass(frozen=True)
class EngineSpec:
    """One engine to build: its row's name, its precision, and its profile's batches (min, opt, max)."""

    name: str
    precision: str
    profile: tuple[int, int, int]


@dataclass(frozen=True)
class RunOptions:
    """What to run and how long to measure, for each engine and batch.

    A latency is measured for `bench_calls` calls and `bench_seconds`, but calls missing after `bench_limit` seconds
    are left out; throughput for `throughput_seconds`; accuracy on `accuracy_images`, or as many of them as
    `accuracy_seconds` allow. `onnx` is somebody else's model in place of `model`, with its
    `samples` (.npz of named inputs, .npy of the only one), or with a data set that has `labels` for it and a file of
    its `classes` and what is asked of its `preprocessing`, and the `shapes` of its profile in trtexec's spelling.
    """

    out: Path = Path("results")
    model: str = "resnet50"
    data: str = "digits"
    quick: bool = False
    batches: tuple[int, ...] = (1, 4, 8, 16, 32)
    calibration_images: int = 256
    accuracy_images: int = 1000
    accuracy_seconds: float | None = None
    bench_seconds: float = 1.5
    bench_calls: int = 100
    bench_limit: float = 20.0
    throughput_seconds: float = 1.2
    input_size: int = 224
    onnx: Path | None = None
    samples: Path | None = None
    labels: str | None = None
    classes: Path | None = None
    preprocessing: Asked = NOTHING
    shapes: tuple[str, ...] = ()

    @classmethod
    def quickly(cls, **chosen: Any) -> "RunOptions":
        """Return the options of a quick run: two batch sizes, fewer images, shorter measurements; the same code."""
        short = {"batches": (1, 8), "calibration_images": 64, "bench_limit": 4.0, "accuracy_seconds": 60.0}
        return cls(**{"quick": True, **short, **chosen})

    def described(self) -> dict[str, Any]:
        """Return what the report says of how it was made."""
        images = {
            "calibration_images": self.calibration_images,
            "accuracy_images": f"up to {self.accuracy_images}, as many as {self.accuracy_seconds:g} s allow"
            if self.accuracy_seconds
            else self.accuracy_images,
        }
        return {
            "run": "quick" if self.quick else "full",
            "batch_sizes": ", ".join(map(str, self.batches)),
            "latency": f"{self.bench_calls} calls and {self.bench_seconds:g} s or more each; "
            f"calls missing after {self.bench_limit:g} s are left out",
            "throughput": f"{self.throughput_seconds:g} s each",
            **(images if self.onnx is None or self.labels else {}),
            **({"input_size": self.input_size} if self.onnx is None else {}),
        }

    def engines(self) -> list[EngineSpec]:
        """Return the engines to build: one a precision, tuned for the largest batch, and FP16 with a wide profile.

        The wide profile is that of the lab's third step.
        """
        largest = max(self.batches)
        tuned = [EngineSpec(name, name, (1, largest, largest)) for name in ("fp32", "tf32", "fp16", "int8")]
        return [*tuned, EngineSpec("dynamic-fp16", "fp16", (1, 8, max(32, largest)))]
