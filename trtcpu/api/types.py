"""Shapes and small functions on types, as in TensorRT's Python bindings."""

import math
from collections.abc import Iterable, Iterator

import numpy as np

from trtcpu.api.enums import DataType
from trtcpu.api.pybind import Declared

_NUMPY = {
    DataType.FLOAT: np.float32,
    DataType.HALF: np.float16,
    DataType.INT8: np.int8,
    DataType.INT32: np.int32,
    DataType.BOOL: np.bool_,
    DataType.UINT8: np.uint8,
    DataType.INT64: np.int64,
}


class Dims(Declared):
    """A shape. -1 is a dimension that is not known yet; rank -1 is a shape that is not known at all."""

    __slots__ = ("_shape",)
    MAX_DIMS = 8

    def __init__(self, shape: Iterable[int] | None = ()) -> None:
        """Take the dimensions; None makes a shape of unknown rank."""
        self._shape: list[int] | None = None if shape is None else [int(d) for d in shape]
        if self._shape is not None and len(self._shape) > self.MAX_DIMS:
            raise ValueError(f"a shape has at most {self.MAX_DIMS} dimensions, found {len(self._shape)}")

    def _known(self) -> list[int]:
        if self._shape is None:
            raise ValueError("__len__() should return >= 0: the shape is not known until every input shape is set")
        return self._shape

    def __len__(self) -> int:
        return len(self._known())

    def __iter__(self) -> Iterator[int]:
        return iter(self._known())

    def __getitem__(self, index: int | slice) -> "int | Dims":
        picked = self._known()[index]
        return Dims(picked) if isinstance(index, slice) else picked

    def __setitem__(self, index: int, value: int) -> None:
        self._known()[index] = int(value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dims):
            raise TypeError("TensorRT compares Dims with tuples and lists only: compare tuple(a) == tuple(b)")
        if isinstance(other, (tuple, list)):
            return self._shape is not None and self._shape == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "(-1)" if self._shape is None else str(tuple(self._shape))


def volume(iterable: Iterable[int]) -> int:
    """Return the number of elements of a shape (the product of its dimensions; 1 for an empty one)."""
    return math.prod(iterable)


def nptype(trt_type: DataType) -> type:
    """Return the NumPy type of a TensorRT type.

    Raises:
        TypeError: NumPy has no such type (BF16, FP8, INT4, FP4), as in TensorRT.
    """
    if trt_type not in _NUMPY:
        raise TypeError(f"Could not resolve TensorRT datatype to an equivalent numpy datatype: {trt_type}")
    return _NUMPY[trt_type]


def storage_type(trt_type: DataType) -> type:
    """Return a NumPy type of the same size: BF16, which NumPy lacks, lies in 16 bits of its own."""
    return np.uint16 if trt_type == DataType.BF16 else nptype(trt_type)


class Weights(Declared):
    """Values for a layer: a host array, or a type alone with nothing in it."""

    __slots__ = ("_array", "dtype", "nbytes", "size")

    def __init__(self, type: np.ndarray | DataType = DataType.FLOAT) -> None:
        array = np.empty(0, nptype(type)) if isinstance(type, DataType) else np.ascontiguousarray(type)
        self.dtype = next(kind for kind, known in _NUMPY.items() if array.dtype == known)
        self._array, self.size, self.nbytes = array, array.size, array.nbytes

    def numpy(self) -> np.ndarray:
        return self._array


class Permutation(Dims):
    """An order of dimensions; the first ones count, as many as the tensor has."""

    __slots__ = ()

    def __init__(self, shape: Iterable[int] = ()) -> None:
        given = list(shape)
        super().__init__([*given, *[0] * (self.MAX_DIMS - len(given))])


def _of_rank(rank: int) -> type[Dims]:
    """Return the class of shapes of `rank` dimensions, given one by one or as a sequence; none gives zeros."""

    def take(self: Dims, *shape: Iterable[int] | int) -> None:
        given = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        values = list(given) if shape else [0] * rank
        if len(values) != rank:
            raise ValueError(f"Dims{rank} needs {rank} dimensions, found {len(values)}")
        Dims.__init__(self, values)

    return type(f"Dims{rank}", (Dims,), {"__slots__": (), "__init__": take, "__module__": __name__})


Dims2, Dims3, Dims4 = map(_of_rank, (2, 3, 4))
