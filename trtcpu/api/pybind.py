"""How pybind11 classes behave that plain Python classes don't.

They take weak references, but no attribute that they don't have: `config.max_workspace_size = 1 << 30` must fail here
as it does there. A user's own subclass is open, as in TensorRT.
"""

import warnings
from typing import Any


class Declared:
    """Base of the API's classes; each names its own attributes in `__slots__`."""

    __slots__ = ("__weakref__",)


class _ChecksBaseInit(type):
    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        made = super().__call__(*arguments, **named)
        try:
            Overridable._base_initialised.__get__(made)  # past the class's own __getattr__, if it has one
        except AttributeError:
            base = next(c.__name__ for c in cls.__mro__ if c.__module__.startswith("trtcpu."))
            raise TypeError(
                f"tensorrt.{base}.__init__() must be called when overriding __init__: "
                f"put trt.{base}.__init__(self) first in {cls.__name__}.__init__"
            ) from None
        return made


class Overridable(Declared, metaclass=_ChecksBaseInit):
    """Base of the classes that a user derives from; one whose `__init__` never reached this one cannot be made."""

    __slots__ = ("_base_initialised",)

    def __init__(self) -> None:
        self._base_initialised = True


class Scoped(Declared):
    """TensorRT's old `with trt.Builder(logger) as builder`: it warns as the real one does, and frees nothing."""

    __slots__ = ()

    def __enter__(self) -> Any:
        warnings.warn(
            "Context managers for TensorRT types are deprecated. Memory is freed when the last reference goes.",
            DeprecationWarning,
            stacklevel=2,
        )
        return self

    def __exit__(self, *exc_info: object) -> None:
        return None
