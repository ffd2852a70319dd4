"""The uses that are gone, held to what NVIDIA's bindings say of the names that stayed."""

import re

import pytest

from trtcpu.api.manifest import load_manifest
from trtcpu.api.version import VERSIONS
from trtlab.migrate.rewrites.names import _BY_NAME
from trtlab.migrate.uses import USES

MEMBERS = {
    number: {name: entry.get("members", {}) for name, entry in load_manifest(VERSIONS[number].line)["surface"].items()}
    for number in ("10", "11")
}


@pytest.mark.parametrize("use", [use for use in USES if use.endswith(" = …")])
def test_what_can_no_longer_be_set_can_be_read(use: str) -> None:
    owner, member = use.removesuffix(" = …").split(".")
    gone = USES[use].gone_in.partition(".")[0]
    assert MEMBERS[gone][owner][member] == {"kind": "property", "settable": False}
    assert gone == "10" or MEMBERS["10"][owner][member]["settable"]


@pytest.mark.parametrize("use", [use for use in USES if re.search(r"\.add_\w+\(", use)])
def test_what_needs_an_output_type_did_without_it(use: str) -> None:
    owner, member, given = re.fullmatch(r"(\w+)\.(\w+)\((.*)\)", use).groups()
    counts = {
        number: {len(signature["arguments"]) for signature in MEMBERS[number][owner][member]["signatures"]}
        for number in MEMBERS
    }
    assert len(given.split(", ")) in counts["10"] and counts["11"] == {len(given.split(", ")) + 1}


def test_the_numbers_of_the_networks_flags_moved() -> None:
    flags = {number: MEMBERS[number]["NetworkDefinitionCreationFlag"] for number in MEMBERS}
    assert flags["10"]["EXPLICIT_BATCH"]["value"] == flags["11"]["STRONGLY_TYPED"]["value"] == 0
    assert flags["10"]["STRONGLY_TYPED"]["value"] == 1


@pytest.mark.parametrize("number", ["10", "11"])
def test_what_rewrites_call_is_there_and_takes_a_name_first(number: str) -> None:
    for old, new in _BY_NAME.items():
        signatures = MEMBERS[number][old.partition(".")[0]][new]["signatures"]
        assert all(signature["arguments"][0]["name"] == "name" for signature in signatures)
    context, engine = MEMBERS[number]["IExecutionContext"], MEMBERS[number]["ICudaEngine"]
    assert {"engine", "set_input_shape", "set_tensor_address", "execute_async_v3"} <= context.keys()
    assert {"num_io_tensors", "get_tensor_name", "get_tensor_mode", "get_tensor_profile_shape"} <= engine.keys()
    assert {"logger", "build_serialized_network"} <= MEMBERS[number]["Builder"].keys()
