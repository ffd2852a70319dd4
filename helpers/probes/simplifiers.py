"""A simplifier that goes wrong and says so: does the student's code look at what it says?"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import onnx
import onnxsim
from onnx import numpy_helper

__all__ = ["faulty_simplifier"]


def _spoiled(model: Any, *args: Any, **kwargs: Any) -> tuple[onnx.ModelProto, bool]:
    """Return the model with every weight half as large again, and onnxsim's "these are not the same"."""
    found = onnx.ModelProto()
    found.CopyFrom(onnx.load(str(model)) if not isinstance(model, onnx.ModelProto) else model)
    for tensor in found.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype.kind == "f":
            tensor.CopyFrom(numpy_helper.from_array((values * 1.5).astype(values.dtype), tensor.name))
    return found, False


@contextlib.contextmanager
def faulty_simplifier(function: Callable[..., Any]) -> Iterator[None]:
    """Let `onnxsim.simplify` return a wrong model and False, also under the name that the function's module gave it."""
    names = getattr(function, "__globals__", {})
    own = {name: _spoiled for name, value in names.items() if value is onnxsim.simplify}
    with mock.patch.dict(names, own), mock.patch.object(onnxsim, "simplify", _spoiled):
        yield
