"""What the CPU engine has not got of TensorRT's API: it raises `UnsupportedError` by name, none is silently missing.

manifest.json lists TensorRT 10.16's public names; tests/tools/make_api_manifest.py makes it from the bindings' own
docstrings. `complete` gives every class of the manifest the members it lacks, as stubs that raise.
"""

import functools
import json
from pathlib import Path
from typing import Any

from helpers.errors import UnsupportedError

__all__ = ["complete", "load_manifest", "missing_name", "unsupported"]

_PATH = Path(__file__).with_name("manifest.json")


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


def complete(namespace: dict[str, Any]) -> None:
    """Add the stubs to the classes in `namespace` (a module's globals) that the manifest describes."""
    for name, entry in load_manifest()["surface"].items():
        cls = namespace.get(name)
        if entry["kind"] == "class" and isinstance(cls, type):
            for member in set(entry["members"]) - set(dir(cls)):
                setattr(cls, member, _UnsupportedMember(f"{name}.{member}"))


def missing_name(name: str) -> Exception:
    """Return what a module's `__getattr__(name)` raises: unsupported if TensorRT has the name, else AttributeError."""
    manifest = load_manifest()
    if name in manifest["surface"] or name in manifest["outside"]:
        return _refuse(name)
    return AttributeError(f"module 'tensorrt' (here the CPU engine) has no attribute {name!r}")


def unsupported(feature: str) -> UnsupportedError:
    """Return the error for a feature that TensorRT offers under a name, or with an argument, that is here."""
    return UnsupportedError(
        f"the CPU engine does not support {feature}; use real TensorRT on an NVIDIA GPU (TRT_LAB_ENGINE=tensorrt)"
    )
