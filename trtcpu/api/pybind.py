"""How pybind11 classes behave that plain Python classes don't.

They take weak references, but no attribute that they don't have: `config.max_workspace_size = 1 << 30` must fail here
as it does there. A user's own subclass is open, as in TensorRT.
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any


class Declared:
    """Base of the API's classes; each names its own attributes in `__slots__`."""

    __slots__ = ("__weakref__",)


def keep(owner: Declared, **values: Any) -> None:
    """Give an object the attributes that can be set and read and have no effect on a CPU, with TensorRT's defaults."""
    for name, value in values.items():
        setattr(owner, name, value)


class Flagged(Declared):
    """What holds a bit mask of an enumeration's members in `flags`."""

    __slots__ = ("flags",)

    def set_flag(self, flag: Any) -> None:
        self.flags |= 1 << int(flag)

    def clear_flag(self, flag: Any) -> None:
        self.flags &= ~(1 << int(flag))

    def get_flag(self, flag: Any) -> bool:
        return bool(self.flags >> int(flag) & 1)


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


def to_override(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that a subclass must override: called as it is, it raises NotImplementedError."""

    @functools.wraps(method)
    def missing(self: Any, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must override {method.__name__}()")

    return missing


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
