"""A simplifier that goes wrong and says so: does the student's code look at what it says?"""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import onnx
import onnxsim
from onnx import numpy_helper

__all__ = ["FAULTS", "faulty_simplifier"]


FAULTS = ("slight", "nan")


def _spoiled(fault: str, model: Any, *args: Any, **kwargs: Any) -> tuple[onnx.ModelProto, bool]:
    """Return the model with other weights in its first convolution, and onnxsim's "these are not the same".

    `slight`: 5 % larger, which changes no output for an image of zeros and hardly any first class. `nan`: not numbers.
    """
    found = onnx.ModelProto()
    found.CopyFrom(onnx.load(str(model)) if not isinstance(model, onnx.ModelProto) else model)
    tensor = next(tensor for tensor in found.graph.initializer if len(tensor.dims) == 4)
    values = numpy_helper.to_array(tensor)
    wrong = values * 1.05 if fault == "slight" else values * np.nan
    tensor.CopyFrom(numpy_helper.from_array(wrong.astype(values.dtype), tensor.name))
    return found, False


@contextlib.contextmanager
def faulty_simplifier(function: Callable[..., Any], fault: str = "slight") -> Iterator[None]:
    """Let `onnxsim.simplify` return a wrong model and False, also under the name that the function's module gave it."""
    names, spoiled = getattr(function, "__globals__", {}), partial(_spoiled, fault)
    own = {name: spoiled for name, value in names.items() if value is onnxsim.simplify}
    with mock.patch.dict(names, own), mock.patch.object(onnxsim, "simplify", spoiled):
        yield
