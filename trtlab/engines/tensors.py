"""What goes into an engine: each input's type, the shapes that its profile allows, and seeded values to run it with."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from trtcpu.errors import InputError

Shape = tuple[int, ...]
_NUMPY_TYPES = {
    "FLOAT": "float32", "HALF": "float16", "INT8": "int8", "INT32": "int32", "INT64": "int64", "UINT8": "uint8",
    "BOOL": "bool",
}  # fmt: skip


@dataclass(frozen=True)
class InputSpec:
    """One input: `least`, `best` and `most` are the profile's shapes, all equal where nothing is dynamic.

    `limit` is the number of rows of the table that an integer input looks up; None if it is not known.
    """

    name: str
    dtype: np.dtype
    least: Shape
    best: Shape
    most: Shape
    limit: int | None = None

    @property
    def batches(self) -> tuple[int, int, int]:
        """The smallest, the best and the largest size of axis 0; a scalar counts as a batch of one."""
        least, best, most = (shape[0] if shape else 1 for shape in (self.least, self.best, self.most))
        return least, best, most

    def at(self, batch: int, batches: tuple[int, int, int]) -> Shape:
        """Return the best shape at a batch; an input whose axis 0 is not the engine's batch keeps its own."""
        return (batch, *self.best[1:]) if self.best and self.batches == batches else self.best

    def takes(self, shape: Shape) -> bool:
        """Say whether the profile allows a shape."""
        sizes = zip(self.least, shape, self.most, strict=False)
        return len(shape) == len(self.best) and all(low <= size <= high for low, size, high in sizes)

    def described(self) -> str:
        """Return what the input takes in words: "tokens int64 [1–4, 8–128]"."""
        axes = (f"{low}–{high}" if low != high else f"{low}" for low, high in zip(self.least, self.most, strict=True))
        return f"{self.name} {self.dtype} [{', '.join(axes)}]"


def batch_range(inputs: Mapping[str, InputSpec]) -> tuple[int, int, int]:
    """Return the smallest, the best and the largest batch of a network: axis 0 of its first input that is no scalar."""
    specs = [*inputs.values()]
    return next((spec for spec in specs if spec.best), specs[0]).batches


def batched(inputs: Mapping[str, InputSpec]) -> list[str]:
    """Return the names of the inputs whose axis 0 is the batch; the others are the same for every batch."""
    batches = batch_range(inputs)
    return [spec.name for spec in inputs.values() if spec.best and spec.batches == batches]


def count(samples: Mapping[str, np.ndarray], inputs: Mapping[str, InputSpec]) -> int:
    """Return how many samples there are; one where no input has a batch."""
    return min((len(samples[name]) for name in batched(inputs)), default=1)


def taken(
    samples: Mapping[str, np.ndarray], inputs: Mapping[str, InputSpec], start: int, stop: int
) -> dict[str, np.ndarray]:
    """Return samples [start:stop] of the inputs that have a batch, and the others whole."""
    cut = batched(inputs)
    return {name: array[start:stop] if name in cut else array for name, array in samples.items()}


def shape_text(shape: Shape) -> str:
    """Return a shape in trtexec's spelling: 1x3x224x224."""
    return "x".join(map(str, shape)) or "scalar"


def examples(inputs: Mapping[str, InputSpec], batch: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Return seeded values for every input at a batch; the same for every engine of a model."""
    batches = batch_range(inputs)
    return {
        spec.name: example(spec.at(batch, batches), spec.dtype, spec.limit, seed + index)
        for index, spec in enumerate(inputs.values())
    }


def example(shape: Shape, dtype: np.dtype, limit: int | None = None, seed: int = 0) -> np.ndarray:
    """Return normal noise for a float type, and for integers uniform values below `limit`.

    Where no limit is known, integers are 0 and 1: indices that every table has.
    """
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return random.standard_normal(shape, dtype=np.float32).astype(dtype, copy=False)
    return random.integers(0, limit or 2, shape).astype(dtype)


def check_finite(
    values: np.ndarray, what: str, remedy: str = "look at the model, or build at a higher precision"
) -> None:
    """Raise InputError if values [N, …], or one value, are NaN or infinite; `what` names them."""
    values = np.atleast_1d(values)
    wrong = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if wrong.any():
        raise InputError(f"{what} is NaN or infinite in {wrong.sum()} of {len(wrong)} samples; {remedy}")


def numpy_type(kind: object, what: str) -> np.dtype:
    """Return NumPy's type for a `trt.DataType`; `what` names the tensor that has it.

    Raises:
        InputError: NumPy has none (BF16, FP8).
    """
    name = str(kind).rpartition(".")[2]
    if name not in _NUMPY_TYPES:
        raise InputError(f"{what} is {kind}, which NumPy has no type for")
    return np.dtype(_NUMPY_TYPES[name])


def volume(shape: Shape) -> int:
    """Return the number of elements."""
    return math.prod(shape)
