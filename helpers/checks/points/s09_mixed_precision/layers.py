"""keep_in_half(network, config, names): what it sets on a network, and what it leaves alone."""

from typing import Any, TypedDict

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree
from helpers.checks.points.s09_mixed_precision.networks import CONVOLUTIONS, chosen_layers, mixed_onnx
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.frames import said
from helpers.engine.backend import network_flags, trt

_SET = "what is set on a network before it is built: it lives in the student's process"
_FLAGS = ("INT8", "FP16", "OBEY_PRECISION_CONSTRAINTS")

FUNCTION = "keep_in_half"
LAYERS = Task("mixed_layers", check="check_kept_layers", takes=(FUNCTION,))


class Refusal(TypedDict):
    """An exception of the student's function."""

    type: str
    message: str


class Kept(TypedDict):
    """What `keep_layers` answers: the names, the error, the flags, and what was set, by layer and by tensor."""

    names: list[str]
    error: Refusal | None
    flags: dict[str, bool]
    precisions: dict[str, str]
    types: dict[str, str]


@probe
def keep_layers(notebook: Notebook, *, onnx: bytes, names: list[str]) -> Kept:
    """Call keep_in_half on an ONNX model's network and a new configuration, for `names` and the last layer, if any."""
    logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(network_flags())
    parser = trt.OnnxParser(network, logger)
    parser.parse(onnx)
    config, error, function = builder.create_builder_config(), None, notebook[FUNCTION]
    before = _set_on(network)  # the parser sets the type of what computes shapes
    names = [*names, network.get_layer(network.num_layers - 1).name] if names else []
    try:
        function(network, config, list(names))
    except ValueError as raised:
        error = {"type": "ValueError", "message": said(raised)}
    precisions, types = (dict(after.items() - old.items()) for after, old in zip(_set_on(network), before, strict=True))
    flags = {name: config.get_flag(getattr(trt.BuilderFlag, name)) for name in _FLAGS}
    return {"names": names, "error": error, "flags": flags, "precisions": precisions, "types": types}


def _set_on(network: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Return the precisions that are set on layers, and the types that are set on their outputs."""
    precisions, types = dict[str, str](), dict[str, str]()
    for layer in (network.get_layer(index) for index in range(network.num_layers)):
        if layer.precision_is_set:
            precisions[layer.name] = _name(layer.precision)
        for index in filter(layer.output_type_is_set, range(layer.num_outputs)):
            types[layer.get_output(index).name] = _name(layer.get_output_type(index))
    return precisions, types


def _name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def _names(case: Case) -> list[str]:
    return chosen_layers(case.number("mixed.layers"))


def _kept(case: Case, names: list[str]) -> Kept:
    return case.call(keep_layers, onnx=mixed_onnx(case.number("mixed.network")), names=names).require(FUNCTION)


@LAYERS.point("mixed.precisions", 0.25, "Named layers are asked to run in FP16, other convolutions in INT8", _SET)
def precisions(case: Case) -> str:
    found = _kept(case, _names(case))
    right = dict.fromkeys(CONVOLUTIONS, "INT8") | dict.fromkeys(found["names"], "HALF")
    advice = "HALF on the layers in `names`, INT8 on all other convolutions, nothing on other layers"
    _same(found["precisions"], right, f"{FUNCTION}'s precisions", advice)
    return f"{len(found['names'])} layers in FP16, the other convolutions in INT8"


@LAYERS.point("mixed.types", 0.2, "Their outputs are FP16, except those of the network", _SET)
def types(case: Case) -> str:
    names, found = _names(case), _kept(case, _names(case))["types"]
    right = dict.fromkeys(names, "HALF") | ({"output": "FLOAT"} if found.get("output") == "FLOAT" else {})
    advice = "set_output_type on each output of the named layers, but not on an output of the network"
    _same(found, right, f"{FUNCTION}'s output types", advice)
    return f"{len(names)} layers; the network's output keeps its type"


def _same(found: dict[str, str], right: dict[str, str], what: str, advice: str) -> None:
    every = dict.fromkeys((*right, *found), "nothing set")
    agree(every | found, every | right, what, advice)


@LAYERS.point("mixed.flags", 0.15, "INT8 and FP16 are allowed, and precisions obeyed", _SET)
def flags(case: Case) -> str:
    for names in (_names(case), []):
        what = f"{FUNCTION} with {len(names) or 'no'} names"
        agree(_kept(case, names)["flags"], dict.fromkeys(_FLAGS, True), what, "set three flags, whatever the names")
    return ", ".join(_FLAGS)


@LAYERS.point("mixed.unknown", 0.15, "A name that no layer has is an error, and nothing is set", _SET)
def unknown(case: Case) -> str:
    wrong, names = f"conv{case.number('mixed.typing') % 900 + 100}", _names(case)
    for given in ([*names, wrong], [wrong, *names]):
        found = _kept(case, given)
        if not found["error"]:
            raise Missed(f"ValueError for {wrong}, which no layer is called", "none", "compare with all names first")
        touched = [*filter(None, found["precisions"].values()), *filter(None, found["flags"].values())]
        if touched:
            raise Missed("nothing set where a name is wrong", f"{touched[0]}", "look at all names before you use one")
    return found["error"]["message"][:80]
