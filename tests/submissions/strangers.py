"""Holds while claims are decided: what the student's side gave is loaded by functions of probes/loads.py alone.

In grading these run in a sandboxed child. Here they run in this process, by the rules of the other: what they are given
and give passes as plain data, and their exceptions are those that come back from there.
"""

import contextlib
import functools
import hashlib
import importlib
import json
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import onnx
import onnxruntime
from PIL import Image

from helpers.checks.probes import student
from helpers.checks.probes.codec import pack, unpack
from helpers.checks.probes.loads import LoadError, elsewhere
from helpers.engine.backend import trt
from solutions.checks.trusted.reference import reference
from trtcpu.errors import LabError
from trtcpu.plan import Plan

_LOADERS: tuple[tuple[Any, str], ...] = (
    (onnx, "load_from_string"),
    (onnx, "load_model_from_string"),
    (onnxruntime, "InferenceSession"),
    (trt.OnnxParser, "parse"),
    (trt.Runtime, "deserialize_cuda_engine"),
    (Plan, "deserialize"),
    (Image, "open"),
    (np, "load"),
    (json, "loads"),
)


class _Watch:
    """Knows the bytes that came from the student's side, and whose code runs at the moment."""

    def __init__(self) -> None:
        self.given: set[bytes] = set()
        self.elsewhere = 0
        """How many calls deep the code is that may load them: the student's own, or a function of `loads`."""

    def note(self, value: Any) -> Any:
        """Remember all bytes in a value; return it."""
        if isinstance(value, bytes):
            self.given.add(_digest(value))
        for one in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
            self.note(one)
        return value

    def is_strange(self, content: bytes) -> bool:
        """Whether the student's side gave these bytes, and they are not the reference's, which was lent to it."""
        if _digest(content) not in self.given:
            return False
        return all(path.read_bytes() != content for path in reference().root.rglob("*.*") if path.is_file())

    def noting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return functools.wraps(function)(lambda *given, **named: self.note(function(*given, **named)))

    def free(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*given: Any, **named: Any) -> Any:
            self.elsewhere += 1
            try:
                return function(*given, **named)
            finally:
                self.elsewhere -= 1

        return run

    def barred(self, loader: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(loader)
        def load(*given: Any, **named: Any) -> Any:
            for one in () if self.elsewhere else (*given, *named.values()):
                content = getattr(one, "getvalue", lambda one=one: one)()
                if isinstance(content, (bytes, bytearray)) and self.is_strange(bytes(content)):
                    raise AssertionError(f"{name} of {len(content)} bytes that the student's side gave")
            return loader(*given, **named)

        return load

    def place(self, module: str, name: str, given: tuple[Any, ...], seconds: float, repeatable: bool) -> Any:
        """Run a function of `loads`; as solutions.grading.judge.child does."""
        function = getattr(importlib.import_module(module), name).__wrapped__
        if self.elsewhere:
            return function(*given)
        try:
            return unpack(pack(self.free(function)(*unpack(pack(list(given))))))
        except LabError:
            raise
        except Exception as error:
            raise LoadError(f"{type(error).__name__}: {error}"[:500]) from error


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content).digest()


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Have a claim fail with AssertionError if it loads what the student's side gave."""
    watch = _Watch()
    with contextlib.ExitStack() as stack:
        stack.callback(elsewhere, None)
        elsewhere(watch.place)
        for name in ("read_artifact", "unpack"):
            stack.enter_context(mock.patch.object(student, name, watch.noting(getattr(student, name))))
        stack.enter_context(mock.patch.object(student, "answer", watch.free(student.answer)))
        for owner, name in _LOADERS:
            stack.enter_context(mock.patch.object(owner, name, watch.barred(getattr(owner, name), name)))
        yield
