"""Print the public names of a TensorRT extension module as JSON; make_api_manifest.py starts it, once a module."""

import enum
import importlib.util
import inspect
import json
import re
import sys
from types import ModuleType
from typing import Any

_PREFIX = re.compile(r"\b(tensorrt_bindings|tensorrt)\.tensorrt\.")
_ENUM_DEFAULT = re.compile(r"<(\w+\.\w+): -?\d+>")
_SIGNATURE = re.compile(r"^(?:\d+\. )?(?P<name>\w+)\((?P<arguments>.*)\) -> (?P<returns>.+)$")
# nptype and volume are Python functions of the package's __init__.py, which needs NVIDIA's libraries.
_PYTHON_FUNCTIONS = {"nptype": "nptype(trt_type) -> type", "volume": "volume(iterable) -> int"}


def load(path: str) -> ModuleType:
    """Import the extension module at `path`."""
    spec = importlib.util.spec_from_file_location("tensorrt_bindings.tensorrt", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def split_top_level(text: str) -> list[str]:
    """Split at the commas that are outside all brackets."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char in "([{<") - (char in ")]}>")
        if char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [part for part in [*parts, text[start:].strip()] if part]


def argument(text: str) -> dict[str, str]:
    """Return name, type and default of one argument of a pybind11 signature."""
    declared, _, default = text.partition(" = ")
    name, _, kind = declared.partition(": ")
    entry = {"name": name} | ({"type": kind} if kind else {})
    return entry | ({"default": _ENUM_DEFAULT.sub(r"\1", default)} if default else {})


def signatures(docstring: str | None, name: str) -> list[dict[str, Any]]:
    """Return the signatures in a pybind11 docstring; more than one for an overloaded function."""
    found = []
    for line in _PREFIX.sub("", docstring or "").splitlines():
        match = _SIGNATURE.match(line.strip())
        if match and match["name"] == name:
            arguments = [argument(part) for part in split_top_level(match["arguments"])]
            found.append({"arguments": [a for a in arguments if a["name"] != "self"], "returns": match["returns"]})
    return [one for one in found if not any(a["name"] == "*args" for a in one["arguments"])] or found


def members(cls: type) -> dict[str, Any]:
    """Return the public methods and properties of a class, inherited ones included."""
    result = {}
    for name in sorted(dir(cls)):
        value = inspect.getattr_static(cls, name)
        if name.startswith("_") and name != "__init__" or inspect.isclass(value):
            continue
        if isinstance(value, property):
            result[name] = {"kind": "property", "settable": value.fset is not None}
        elif callable(getattr(cls, name)) and (found := signatures(getattr(cls, name).__doc__, name)):
            result[name] = {"kind": "method", "signatures": found}
    return result


def describe(name: str, value: Any) -> dict[str, Any] | None:
    """Return the manifest's entry of one public name."""
    if inspect.isclass(value) and "__members__" in dir(value):
        values = {key: {"kind": "enum", "value": int(member)} for key, member in value.__members__.items()}
        return {"kind": "enum", "members": values}
    if inspect.isclass(value):
        bases = [base.__name__ for base in value.__bases__ if not base.__name__.startswith("pybind11")]
        return {"kind": "class", "bases": bases, "members": members(value)}
    if callable(value):
        return {"kind": "function", "signatures": signatures(value.__doc__, name)}
    if isinstance(value, (str, int, float, enum.Enum)) or type(value).__name__ == "DataType":
        return {"kind": "value", "value": str(value)}
    return None


def main() -> None:
    """Describe the module whose path is the first argument."""
    module = load(sys.argv[1])
    public = {name: describe(name, value) for name, value in vars(module).items() if not name.startswith("_")}
    for name, signature in _PYTHON_FUNCTIONS.items():
        public[name] = {"kind": "function", "signatures": signatures(signature, name)}
    public["Logger"]["members"] |= {
        key: {"kind": "value", "value": int(value)} for key, value in module.ILogger.Severity.__members__.items()
    }
    print(json.dumps({name: entry for name, entry in public.items() if entry}))


if __name__ == "__main__":
    main()
