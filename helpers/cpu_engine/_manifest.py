"""Names of TensorRT's API that the CPU engine has not got: each raises `UnsupportedError`, none is silently missing.

api_manifest.json lists TensorRT 10.16's public names; tests/tools/make_api_manifest.py makes it from the bindings' own
docstrings. `complete` gives every class of the manifest the members it lacks, as stubs that raise. It also refuses
attributes that TensorRT's classes have not got: `config.max_workspace_size = 1 << 30` must fail here as it does there.
"""

import dis
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.errors import UnsupportedError

__all__ = ["complete", "load_manifest", "missing_name"]

_PATH = Path(__file__).with_name("api_manifest.json")


@functools.cache
def load_manifest() -> dict[str, Any]:
    """Return the manifest: `wheels`, `surface` (described names) and `outside` (names only)."""
    return json.loads(_PATH.read_text(encoding="utf-8"))


def _refuse(feature: str) -> UnsupportedError:
    return UnsupportedError(f"the CPU engine has no trt.{feature}; it needs TensorRT on an NVIDIA GPU")


class _UnsupportedMember:
    """A class member that raises as soon as it is read or set."""

    def __init__(self, feature: str) -> None:
        self._feature = feature

    def __get__(self, instance: object, owner: type) -> Any:
        raise _refuse(self._feature)

    def __set__(self, instance: object, value: Any) -> None:
        raise _refuse(self._feature)


def stored_by_init(cls: type) -> set[str]:
    """Return the attributes that the class's `__init__` and its bases' assign to the instance."""
    codes = [vars(base)["__init__"].__code__ for base in cls.__mro__ if hasattr(vars(base).get("__init__"), "__code__")]
    return {step.argval for code in codes for step in dis.get_instructions(code) if step.opname == "STORE_ATTR"}


def _guard(cls: type) -> Callable[[Any, str, Any], None]:
    known = stored_by_init(cls) | set(dir(cls))

    def set_known(self: Any, name: str, value: Any) -> None:
        if name not in known and not name.startswith("_") and type(self) is cls:
            raise AttributeError(f"'tensorrt.{cls.__name__}' object has no attribute {name!r}")
        object.__setattr__(self, name, value)

    return set_known


def complete(namespace: dict[str, Any]) -> None:
    """Add the stubs to the classes in `namespace` (the package's globals) that the manifest describes."""
    for name, entry in load_manifest()["surface"].items():
        cls = namespace.get(name)
        if entry["kind"] != "class" or not isinstance(cls, type):
            continue
        present = stored_by_init(cls) | set(dir(cls))
        for member in set(entry["members"]) - present:
            setattr(cls, member, _UnsupportedMember(f"{name}.{member}"))
        if "__setattr__" not in vars(cls):
            cls.__setattr__ = _guard(cls)


def missing_name(name: str) -> Exception:
    """Return what a module's `__getattr__(name)` raises: unsupported if TensorRT has the name, else AttributeError."""
    manifest = load_manifest()
    if name in manifest["surface"] or name in manifest["outside"]:
        return _refuse(name)
    return AttributeError(f"module 'tensorrt' (here the CPU engine) has no attribute {name!r}")
