"""Code written for TensorRT 7 and 8: what TensorRT 10 does not have is answered with what took its place."""

import re
from typing import Any

import pytest

from helpers.cpu_engine.api.manifest import load_manifest
from helpers.missed import Missed
from helpers.probes import answer, retired
from helpers.probes.answer import Notebook, probe
from helpers.probes.student import Student

SURFACE = load_manifest()["surface"]
MEMBERS = {f"{name}.{member}" for name, entry in SURFACE.items() for member in entry.get("members", {})}


@pytest.mark.parametrize("name", sorted(retired._INSTEAD))
def test_a_retired_name_is_on_no_class_and_its_replacement_is(name: str) -> None:
    attributes = {member.partition(".")[2] for member in MEMBERS}
    assert name not in attributes
    named = re.findall(r"\b(?:config|builder|engine|context|profile)\.(\w+)|trt\.(\w+)", retired._INSTEAD[name])
    assert named and all(method in attributes or kind in SURFACE for method, kind in named)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("trt.Builder(trt.Logger()).create_builder_config().max_workspace_size = 1 << 30", "set_memory_pool_limit"),
        ("trt.Builder(trt.Logger()).build_engine(None, None)", "build_serialized_network"),
    ],
)
def test_a_message_names_the_replacement(monkeypatch: pytest.MonkeyPatch, code: str, said: str) -> None:
    monkeypatch.setattr(answer, "_PROBES", dict(answer._PROBES))

    @probe
    def call_it(notebook: Notebook) -> Any:
        return notebook["work"]()

    namespace: dict[str, Any] = {}
    exec(f"import helpers.cpu_engine as trt\ndef work():\n    {code}", namespace)
    with pytest.raises(Missed) as missed:
        Student.in_process(namespace).call(call_it).require("work")
    assert said in missed.value.try_this
