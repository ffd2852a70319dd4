"""Two manifests from what the bindings say: what one line lacks of the other, and what it added or changed."""

import copy

import pytest

from tests.tools import make_api_manifest as tool
from trtcpu.api.manifest import patched

OLD = {
    "Flag": {"kind": "enum", "members": {"FP16": {"kind": "enum", "value": 0}, "TF32": {"kind": "enum", "value": 2}}},
    "Config": {"kind": "class", "bases": [], "members": {"calibrator": {"kind": "property", "settable": True}}},
    "ILayer": {"kind": "class", "bases": [], "members": {"precision": {"kind": "property", "settable": True}}},
    "Pool": {"kind": "class", "bases": ["ILayer"], "members": {"precision": {"kind": "property", "settable": True}}},
    "Calibrator": {"kind": "class", "bases": [], "members": {}},
    "Reader": {"kind": "class", "bases": [], "members": {}},
}
NEW = {
    "Flag": {"kind": "enum", "members": {"TF32": {"kind": "enum", "value": 1}}},
    "Config": {"kind": "class", "bases": [], "members": {"route": {"kind": "property", "settable": False}}},
    "ILayer": {"kind": "class", "bases": [], "members": {}},
    "Pool": {"kind": "class", "bases": ["ILayer"], "members": {}},
    "Mask": {"kind": "enum", "members": {}},
}


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> dict:
    monkeypatch.setattr(tool, "SURFACE", ["Flag", "Config", "ILayer", "Calibrator"])
    return copy.deepcopy({"10.16": OLD, "8.6": OLD, "11": NEW})


def test_the_difference_put_on_the_first_manifest_gives_what_the_bindings_say(lines: dict) -> None:
    made = patched(tool.assemble(lines), tool.changed(lines, "11"), "11")
    assert made["surface"] == {name: NEW[name] for name in ("Flag", "Config", "ILayer")}
    assert set(made["outside"]) == {"Pool", "Mask"}


def test_the_difference_holds_only_what_was_added_or_changed(lines: dict) -> None:
    found = tool.changed(lines, "11")
    assert found["outside"] == ["Mask"] and set(found["surface"]) == {"Flag", "Config"}
    assert found["surface"]["Flag"] == {"members": {"TF32": {"kind": "enum", "value": 1}}}


def test_a_name_that_is_gone_without_an_explanation_is_told(lines: dict) -> None:
    explained = {"Flag.FP16", "Calibrator", "ILayer.precision"}
    assert tool.unexplained(lines, explained) == ["Config.calibrator", "Reader"]
