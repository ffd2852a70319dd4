"""Names that TensorRT's Python API no longer has: since which version, what took their place, and why.

api_changes.json is the one list of them. Those of 10.0 and 11.0 come from comparing the names in NVIDIA's bindings of
8.6, 10.16 and 11.4 (tests/tools/make_api_manifest.py reads them; a test holds the list to what it found), those of 8.0
and all replacements from NVIDIA's migration guides (docs.nvidia.com/deeplearning/tensorrt: "Migrating from 10.x to
11.x", "from 8.x to 10.x"). A member that all layers had is listed once, as ILayer's.
"""

import functools
import json
import re
from pathlib import Path
from typing import NamedTuple

_PATH = Path(__file__).with_name("api_changes.json")
_MISSING = re.compile(r"'(?:[\w.]+\.)?(\w+)' (?:object )?has no attribute '(\w+)'")


class Change(NamedTuple):
    """A name, such as `BuilderFlag.FP16` or `UffParser`, that TensorRT lacks from the version `gone_in` on ("11.0")."""

    name: str
    gone_in: str
    replacement: str
    reason: str

    @property
    def advice(self) -> str:
        """Since when, why, and what to use: the end of a line that names it."""
        return f"gone since TensorRT {self.gone_in} ({self.reason}); instead: {self.replacement}"


@functools.cache
def load_changes() -> dict[str, Change]:
    """Return all changes by name."""
    rows = (Change(**row) for row in json.loads(_PATH.read_text(encoding="utf-8")))
    return {change.name: change for change in rows}


def replacement(error: str) -> str | None:
    """Return what to use in place of the attribute that an AttributeError's text says is missing, None if unknown."""
    found = _MISSING.search(error)
    if not found:
        return None
    owner, name = found.groups()
    change = load_changes().get(name if owner == "tensorrt" else f"{owner}.{name}")
    return change and f"{change.name} is {change.advice}"
