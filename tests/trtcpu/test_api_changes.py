"""The list of names that TensorRT no longer has: complete against the bindings, and told to who writes one."""

import re
from typing import Any

import pytest

from helpers.checks.missed import Missed
from helpers.checks.probes import answer
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.student import Student
from trtcpu.api.manifest import load_manifest
from trtcpu.api_changes import load_changes, replacement

MANIFEST = load_manifest()
SURFACE = MANIFEST["surface"]
MEMBERS = {f"{name}.{member}" for name, entry in SURFACE.items() for member in entry.get("members", {})}
EARLIER = {name for name, change in load_changes().items() if change.gone_in != "11.0"}


def lacking_11() -> set[str]:
    """Return the names of TensorRT 10.16 that the bindings of 11.4 lack, as the manifest has them."""
    whole = {name for name, entry in SURFACE.items() if "11" in entry.get("lacks", ())}
    outside = {name for name, lacks in MANIFEST["outside"].items() if "11" in lacks}
    members = {
        f"{name}.{member}"
        for name, entry in SURFACE.items()
        for member, what in entry.get("members", {}).items()
        if name not in whole and "11" in what.get("lacks", ())
    }
    return whole | outside | members


def test_every_name_that_11_lacks_has_its_replacement() -> None:
    assert sorted(lacking_11() - load_changes().keys()) == []


def test_what_is_said_to_be_gone_in_11_is_in_10_and_not_in_11() -> None:
    described = {
        name for name, change in load_changes().items() if change.gone_in == "11.0" and name.split(".")[0] in SURFACE
    }
    assert described <= lacking_11()


@pytest.mark.parametrize("name", sorted(EARLIER))
def test_what_was_gone_before_is_not_in_10(name: str) -> None:
    assert name not in MEMBERS and name not in SURFACE and name not in MANIFEST["outside"]


@pytest.mark.parametrize("name", sorted(name for name in EARLIER if name.split(".")[0] in SURFACE))
def test_a_replacement_is_spelt_as_tensorrt_spells_it(name: str) -> None:
    attributes = {member.partition(".")[2] for member in MEMBERS}
    text = load_changes()[name].replacement
    methods = re.findall(r"\b(?:config|builder|engine|context|profile|network|parser)\.(\w+)", text)
    assert set(methods) <= attributes
    named = re.findall(r"trt\.(\w+(?:\.[A-Z_0-9]+)?)", text)
    assert all(one in MEMBERS or one in SURFACE or one in MANIFEST["outside"] for one in named)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("'tensorrt_bindings.tensorrt.IBuilderConfig' object has no attribute 'max_workspace_size'", "set_memory_pool"),
        ("type object 'tensorrt.tensorrt.BuilderFlag' has no attribute 'FP16'", "gone since TensorRT 11.0"),
        ("module 'tensorrt' has no attribute 'UffParser'", "OnnxParser"),
        ("'Model' object has no attribute 'stride'", None),
        ("division by zero", None),
    ],
)
def test_an_attribute_error_is_answered_by_class_and_name(error: str, said: str | None) -> None:
    found = replacement(error)
    assert said in found if said else found is None


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("trt.Builder(trt.Logger()).create_builder_config().max_workspace_size = 1 << 30", "set_memory_pool_limit"),
        ("trt.Builder(trt.Logger()).build_engine(None, None)", "build_serialized_network"),
    ],
)
def test_a_students_message_names_the_replacement(monkeypatch: pytest.MonkeyPatch, code: str, said: str) -> None:
    monkeypatch.setattr(answer, "_PROBES", dict(answer._PROBES))

    @probe
    def call_it(notebook: Notebook) -> Any:
        return notebook["work"]()

    namespace: dict[str, Any] = {}
    exec(f"import trtcpu.tensorrt as trt\ndef work():\n    {code}", namespace)
    with pytest.raises(Missed) as missed:
        Student.in_process(namespace).call(call_it).require("work")
    assert said in missed.value.try_this
