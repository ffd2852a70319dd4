"""The CPU engine against the names, signatures and values that TensorRT's own bindings state, of 10.16 and of 11.4.

This process speaks one of them (`TRT_LAB_API`), so that the other is looked at in a process of its own.
"""

import inspect
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import trtcpu.tensorrt as trt
from trtcpu.api.manifest import load_manifest
from trtcpu.api.version import VERSIONS
from trtcpu.errors import UnsupportedError

ROOT = Path(__file__).resolve().parents[3]
SURFACE = load_manifest()["surface"]
OUTSIDE = load_manifest()["outside"]


def is_refused(owner: Any, name: str) -> bool:
    """Tell whether reading `owner.name` raises UnsupportedError with the name and the engine in its text."""
    try:
        getattr(owner, name)
    except UnsupportedError as error:
        assert name in str(error) and "CPU engine" in str(error)
        return True
    return False


def plain(value: Any) -> str:
    """Spell a default as pybind11 does in its docstrings: an enum member by class and name."""
    return f"{type(value).__name__}.{value.name}" if hasattr(value, "name") and hasattr(value, "value") else str(value)


def own_signature(function: Any) -> list[tuple[str, str | None]] | None:
    """Return (name, default) of the arguments, without self; None for a function that takes anything."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return None
    return [(p.name, None if p.default is p.empty else plain(p.default)) for p in parameters]


def stated_signatures(entry: dict[str, Any]) -> list[list[tuple[str, str | None]]]:
    return [[(a["name"], a.get("default")) for a in one["arguments"]] for one in entry["signatures"]]


def signature_gap(function: Any, entry: dict[str, Any], where: str) -> str | None:
    """Compare with the stated overloads: ours may be any of them, or one that takes what all of them take."""
    ours, stated = own_signature(function), stated_signatures(entry)
    if ours is None or ours in stated or all("arg0" in name for name, _ in sum(stated, [])):
        return None
    names = [name for name, _ in ours]
    longest = max(stated, key=len)
    if len(stated) > 1 and all(name in names for name, _ in longest):
        return None
    return f"{where}: arguments {ours}, TensorRT has {stated}"


def member_gap(cls: type, name: str, entry: dict[str, Any], where: str) -> str | None:
    if name == "__init__":
        return None if cls.__init__ is object.__init__ else signature_gap(cls.__init__, entry, where)
    static = inspect.getattr_static(cls, name, None)
    if static is None:
        return f"{where}: missing"
    if is_refused(cls, name):
        return None
    if entry["kind"] == "method":
        return signature_gap(getattr(cls, name), entry, where)
    if entry["kind"] == "value":
        return None if int(getattr(cls, name)) == entry["value"] else f"{where}: not {entry['value']}"
    if isinstance(static, property) and entry["settable"] != (static.fset is not None):
        return f"{where}: settable is {static.fset is not None}, in TensorRT {entry['settable']}"
    return f"{where}: a method, in TensorRT a property" if inspect.isfunction(static) else None


def enum_gaps(name: str, entry: dict[str, Any]) -> list[str]:
    cls = getattr(trt, name)
    ours = {key: int(member) for key, member in cls.__members__.items()}
    gaps = []
    for key, stated in entry["members"].items():
        if key not in ours:
            gaps.append(f"{name}.{key}: missing (value {stated['value']})")
        elif ours[key] != stated["value"]:
            gaps.append(f"{name}.{key}: value {ours[key]}, in TensorRT {stated['value']}")
    return gaps + [f"{name}.{key}: TensorRT has no such member" for key in set(ours) - set(entry["members"])]


def gaps_of(name: str, entry: dict[str, Any]) -> list[str]:
    """Return what differs from the manifest's entry of `name`, as one line each."""
    try:
        value = getattr(trt, name)
    except UnsupportedError:
        return [] if is_refused(trt, name) else [f"{name}: unclear refusal"]
    except AttributeError:
        return [f"{name}: missing"]
    if entry["kind"] == "enum":
        return enum_gaps(name, entry)
    if entry["kind"] == "function":
        return [gap for gap in [signature_gap(value, entry, name)] if gap]
    if entry["kind"] == "value":
        return [] if str(value) == entry["value"] else [f"{name}: {value}, in TensorRT {entry['value']}"]
    bases = [f"{name}: not derived from {base}" for base in entry["bases"] if not issubclass(value, getattr(trt, base))]
    members = (member_gap(value, key, stated, f"{name}.{key}") for key, stated in entry["members"].items())
    return bases + [gap for gap in members if gap]


def gaps() -> list[str]:
    """Return each difference from the manifest, and the names outside of it that are neither there nor refused."""
    found = [gap for name, entry in SURFACE.items() for gap in gaps_of(name, entry)]
    return found + [name for name in OUTSIDE if not is_refused(trt, name) and getattr(trt, name, None) is None]


@pytest.mark.parametrize("name", sorted(SURFACE))
def test_name_exists_with_tensorrts_signature_or_is_refused_by_name(name: str) -> None:
    assert gaps_of(name, SURFACE[name]) == []


@pytest.mark.parametrize("name", sorted(OUTSIDE))
def test_name_outside_the_surface_is_there_or_refused_by_name(name: str) -> None:
    assert is_refused(trt, name) or getattr(trt, name) is not None


def test_unknown_name_is_an_attribute_error_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        trt.no_such_name  # noqa: B018


@pytest.mark.parametrize("name", sorted(name for name, entry in SURFACE.items() if entry["kind"] == "class"))
def test_class_declares_all_of_its_attributes(name: str) -> None:
    """Else its objects would take any attribute, which TensorRT's do not; weak references they do take."""
    if not is_refused(trt, name):
        cls = getattr(trt, name)
        assert cls.__dictoffset__ == 0
        assert cls.__weakrefoffset__ or issubclass(cls, bytes)


def test_attribute_that_tensorrt_10_dropped_cannot_be_set() -> None:
    config = trt.Builder(trt.Logger(trt.Logger.ERROR)).create_builder_config()
    with pytest.raises(AttributeError, match="max_workspace_size"):
        config.max_workspace_size = 1 << 30


def test_what_11_has_is_there_with_its_signature_or_refused_by_name() -> None:
    ask = "import runpy, json; t = runpy.run_path(%r); print(json.dumps([t['gaps'](), t['trt'].__version__]))"
    environment = {**os.environ, "TRT_LAB_API": "11", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", ask % __file__], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[], "11.4.0.106+cpu"]


def test_11_has_what_10_has_except_what_it_lacks_and_more_of_its_own() -> None:
    old, new = load_manifest("10.16"), load_manifest("11")
    flags = new["surface"]["BuilderFlag"]["members"]
    assert "FP16" not in flags and flags["VERSION_COMPATIBLE"]["value"] == 12
    assert old["surface"]["BuilderFlag"]["members"]["VERSION_COMPATIBLE"]["value"] == 13
    assert "IInt8EntropyCalibrator2" not in new["surface"] and "IStreamReader" not in new["outside"]
    assert "CausalMaskKind" in new["outside"] and "CausalMaskKind" not in old["outside"]
    assert new["surface"]["ITensor"]["members"]["dtype"]["settable"] is False
    assert "build_route" in new["surface"]["IBuilderConfig"]["members"]


def test_manifest_says_what_tensorrt_8_6_and_11_lack() -> None:
    surface = load_manifest("10.16")["surface"]
    flags = surface["BuilderFlag"]["members"]
    assert flags["BF16"]["lacks"] == ["8.6", "11"] and flags["FP16"]["lacks"] == ["11"] and "lacks" not in flags["TF32"]
    assert surface["IInt8EntropyCalibrator2"]["lacks"] == ["11"]
    assert surface["ICudaEngine"]["members"]["device_memory_size_v2"]["lacks"] == ["8.6"]
    assert "8.6" in surface["OnnxParser"]["members"]["load_model_proto"]["lacks"]


def bindings() -> tuple[Path, str] | None:
    """Return the extension module of NVIDIA's bindings where they are installed, and their line; None where not."""
    lines = {version.full: version.line for version in VERSIONS.values()}
    for package in ("tensorrt-cu13-bindings", "tensorrt-cu12-bindings", "tensorrt-bindings"):
        try:
            found = metadata.distribution(package)
        except metadata.PackageNotFoundError:
            continue
        extension = Path(found.locate_file("tensorrt_bindings/tensorrt.so"))
        return (extension, lines[found.version]) if found.version in lines and extension.is_file() else None
    return None


def without_lacks(described: dict[str, Any]) -> dict[str, Any]:
    plain = {key: what for key, what in described.items() if key != "lacks"}
    if "members" in plain:
        plain["members"] = {name: without_lacks(member) for name, member in plain["members"].items()}
    return plain


@pytest.mark.skipif(bindings() is None, reason="NVIDIA's bindings of 10.16.1.11 or 11.4.0.106 are not installed")
def test_installed_bindings_say_what_their_manifest_says() -> None:
    extension, line = bindings()
    command = [sys.executable, ROOT / "tests" / "tools" / "read_bindings.py", extension]
    stated = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    manifest = load_manifest(line)
    assert {*manifest["surface"], *manifest["outside"]} == set(stated)
    assert [name for name, entry in manifest["surface"].items() if without_lacks(entry) != stated[name]] == []


def test_manifest_names_the_wheels_it_was_read_from() -> None:
    wheels = load_manifest()["wheels"]
    assert wheels["10.16"] == "tensorrt-cu13-bindings==10.16.1.11" and sorted(wheels) == ["10.16", "11", "8.6"]
