"""Which names TensorRT has. A name that the CPU engine or the version spoken lacks raises an error that says so.

manifest.json lists TensorRT 10.16's public names, and marks those that 11.4 no longer has ("lacks"). manifest-11.json
lists what 11.4 added or changed. tests/tools/make_api_manifest.py makes both from the bindings' own docstrings.
`complete` fits every class to the version that is spoken.
"""

import functools
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trtcpu.api.version import API, VERSIONS
from trtcpu.api_changes import load_changes
from trtcpu.errors import UnsupportedError

_FOLDER = Path(__file__).parent
_OLDEST = VERSIONS["10"].line


@functools.cache
def load_manifest(line: str = API.line) -> dict[str, Any]:
    """Return a version's manifest: `wheels`, `surface` (described names) and `outside` (names only)."""
    manifest = json.loads((_FOLDER / "manifest.json").read_text(encoding="utf-8"))
    if line == _OLDEST:
        return manifest
    return patched(manifest, json.loads((_FOLDER / f"manifest-{line}.json").read_text(encoding="utf-8")), line)


def patched(manifest: dict[str, Any], changed: dict[str, Any], line: str) -> dict[str, Any]:
    """Return the manifest of another line: without what it lacks, with what it added or changed."""
    surface = {}
    for name, entry in _kept(manifest["surface"], line).items():
        more = changed["surface"].get(name, {})
        surface[name] = {**entry, **more}
        if "members" in entry:
            surface[name]["members"] = _kept(entry["members"], line) | more.get("members", {})
    outside = {name: lacks for name, lacks in manifest["outside"].items() if line not in lacks}
    return manifest | {"surface": surface, "outside": outside | dict.fromkeys(changed["outside"], [])}


def _kept(entries: dict[str, Any], line: str) -> dict[str, Any]:
    return {name: entry for name, entry in entries.items() if line not in entry.get("lacks", ())}


def listed_anywhere(name: str) -> dict[str, Any]:
    """Return the entry of a described name: that of the version spoken, else of the one that still had it."""
    return load_manifest()["surface"].get(name) or load_manifest(_OLDEST)["surface"][name]


def _refuse(feature: str) -> UnsupportedError:
    return UnsupportedError(f"the CPU engine has no trt.{feature}; it needs TensorRT on an NVIDIA GPU")


class _Raising:
    """A class member that raises as soon as it is read or set."""

    def __init__(self, error: Callable[[], Exception]) -> None:
        self._error = error

    def __get__(self, instance: object, owner: type) -> Any:
        raise self._error()

    def __set__(self, instance: object, value: Any) -> None:
        raise self._error()


def complete(namespace: dict[str, Any]) -> None:
    """Fit the names in `namespace` (a module's globals) to the version that is spoken.

    A class gets members that raise for what it lacks and for what is gone; a name that is gone is taken away.
    """
    spoken = load_manifest()["surface"]
    for name, entry in load_manifest(_OLDEST)["surface"].items():
        if name not in spoken and name in namespace:
            del namespace[name]
            namespace["__all__"].remove(name)
        elif entry["kind"] == "class" and isinstance(namespace.get(name), type):
            _fit(namespace[name], name, spoken[name]["members"], entry["members"].keys() - spoken[name]["members"])


def _fit(cls: type, name: str, members: dict[str, Any], gone: set[str]) -> None:
    for member, entry in members.items():
        static = inspect.getattr_static(cls, member, None)
        if static is None:
            setattr(cls, member, _Raising(functools.partial(_refuse, f"{name}.{member}")))
        elif isinstance(static, property) and not entry.get("settable", True):
            setattr(cls, member, property(static.fget, doc=static.__doc__))
    for member in gone:
        setattr(cls, member, _Raising(functools.partial(missing_member, name, member)))


def missing_member(owner: str, name: str) -> AttributeError:
    """Return what reading `owner.name` raises if TensorRT has no such member; it says what took its place."""
    change = load_changes().get(f"{owner}.{name}")
    return AttributeError(f"'{owner}' has no attribute '{name}'" + (f", {change.advice}" if change else ""))


def missing_name(name: str) -> Exception:
    """Return what a module's `__getattr__(name)` raises: unsupported if TensorRT has the name, else AttributeError."""
    manifest = load_manifest()
    if name in manifest["surface"] or name in manifest["outside"]:
        return _refuse(name)
    change = load_changes().get(name)
    advice = f", {change.advice}" if change else ""
    return AttributeError(f"module 'tensorrt' (here the CPU engine) has no attribute {name!r}{advice}")


def unsupported(feature: str) -> UnsupportedError:
    """Return the error for a feature that TensorRT offers under a name, or with an argument, that is here."""
    return UnsupportedError(
        f"the CPU engine does not support {feature}; use real TensorRT on an NVIDIA GPU (TRT_LAB_ENGINE=tensorrt)"
    )
