"""keep_in_half(network, config, names): what it sets on a network, and what it leaves alone."""

from typing import Any, TypedDict

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import Reported, point
from helpers.checks.points.s09_mixed_precision.networks import chosen_layers, network
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.frames import said
from helpers.engine.backend import network_flags, trt

_SET = Reported("what is set on a network before it is built: it lives in the student's process")

FUNCTION = "keep_in_half"
_FLAGS = ("INT8", "FP16", "OBEY_PRECISION_CONSTRAINTS")


class Refusal(TypedDict):
    """An exception of the student's function."""

    type: str
    message: str


class SetOn(TypedDict):
    """What is set on a layer."""

    precision: str | None
    types: dict[str, str | None]


class Kept(TypedDict):
    """What `keep_layers` answers."""

    names: list[str]
    error: Refusal | None
    flags: dict[str, bool]
    outputs: list[str]
    convolutions: list[str]
    layers: dict[str, SetOn]


@probe
def keep_layers(notebook: Notebook, *, onnx: bytes, names: list[str], ends: bool = False) -> Kept:
    """Call keep_in_half on an ONNX model's network and a new configuration; with `ends` for its first and last layer.

    Returns `names`, `error` (type and message, None without one), `flags` (name → set), the network's `outputs`, the
    names of its `convolutions`, and `layers`, {name: {"precision": its name or None, "types": {output: its name or
    None}}}; None where the function set nothing.
    """
    logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
    builder = trt.Builder(logger)
    found = builder.create_network(network_flags())
    parser = trt.OnnxParser(found, logger)
    parser.parse(onnx)
    config, error, function = builder.create_builder_config(), None, notebook[FUNCTION]
    before = _layers(found)  # the parser has set the type of what computes shapes, on real TensorRT
    if ends:
        first, last = (found.get_layer(index).name for index in (0, found.num_layers - 1))
        names = list(dict.fromkeys([*names, first, last]))
    try:
        function(found, config, list(names))
    except NotImplementedError:
        raise
    except Exception as raised:
        if names and all(name in _names(found) for name in names):
            raise
        error = {"type": type(raised).__name__, "message": said(raised)}
    return {
        "names": names,
        "error": error,
        "flags": {name: config.get_flag(getattr(trt.BuilderFlag, name)) for name in _FLAGS},
        "outputs": [found.get_output(index).name for index in range(found.num_outputs)],
        "convolutions": [layer.name for layer in _each(found) if layer.type == trt.LayerType.CONVOLUTION],
        "layers": {name: _changed(before[name], layer) for name, layer in _layers(found).items()},
    }


def _each(found: Any) -> list[Any]:
    return [found.get_layer(index) for index in range(found.num_layers)]


def _names(found: Any) -> set[str]:
    return {layer.name for layer in _each(found)}


def _layers(found: Any) -> dict[str, SetOn]:
    return {layer.name: _set_on(layer) for layer in _each(found)}


def _changed(before: SetOn, after: SetOn) -> SetOn:
    """Return `after` with None in the place of what was there before."""
    types = {name: None if kind == before["types"].get(name) else kind for name, kind in after["types"].items()}
    return {"precision": None if after["precision"] == before["precision"] else after["precision"], "types": types}


def _set_on(layer: Any) -> SetOn:
    types = {
        layer.get_output(index).name: _name(layer.get_output_type(index)) if layer.output_type_is_set(index) else None
        for index in range(layer.num_outputs)
    }
    return {"precision": _name(layer.precision) if layer.precision_is_set else None, "types": types}


def _name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


def _asked(case: Case, names: list[str], ends: bool = False) -> Kept:
    return case.call(keep_layers, onnx=network(case), names=names, ends=ends).require(FUNCTION)


def _kept(case: Case) -> tuple[list[str], Kept]:
    """Return the names, the network's first and last layer among them, and what the function did."""
    found = _asked(case, chosen_layers(case), ends=True)
    return found["names"], found


@point("The named layers are asked to run in FP16, the other convolutions in INT8", _SET)
def precisions(case: Case) -> str:
    names, found = _kept(case)
    others = _compare_precisions(names, found)
    _compare_precisions([], _asked(case, []))
    return f"{len(names)} of {len(found['layers'])} layers in FP16, {len(others)} convolutions in INT8"


def _compare_precisions(names: list[str], found: Kept) -> list[str]:
    """Return the convolutions that are not among `names`; each of them must have been asked to run in INT8."""
    others = [name for name in found["convolutions"] if name not in names]
    wanted = dict.fromkeys(names, "HALF") | dict.fromkeys(others, "INT8")
    set_on = {name: layer["precision"] for name, layer in found["layers"].items()}
    wrong = [name for name, precision in set_on.items() if precision != wanted.get(name)]
    if wrong:
        asked = wanted.get(wrong[0])
        expected = (
            f"{asked} on {wrong[0]}" if asked else f"no precision set on {wrong[0]}, no convolution and not named"
        ) + ("" if names else ", where no layer is named")
        found_text = f"{set_on[wrong[0]] or 'no precision'}; {len(wrong)} layers are otherwise than asked"
        raise Missed(expected, found_text, "HALF on the layers in `names`, INT8 on all other convolutions, no more")
    return others


@point("Their outputs are FP16, except those of the network", _SET)
def types(case: Case) -> str:
    names, found = _kept(case)
    for name, layer in found["layers"].items():
        for tensor, kind in layer["types"].items():
            wanted = "HALF" if name in names and tensor not in found["outputs"] else None
            if kind != wanted and not (kind == "FLOAT" and tensor in found["outputs"]):
                why = "an output of the network keeps its type" if tensor in found["outputs"] else "set_output_type"
                expected = f"the type {wanted} for {tensor}" if wanted else f"no other type for {tensor}"
                raise Missed(expected, f"{kind or 'none set'}", f"look at the outputs of the named layers: {why}")
    return f"{len(names)} layers; the network's output keeps its type"


@point("INT8 and FP16 are allowed, and precisions obeyed", _SET)
def flags(case: Case) -> str:
    for names, what in ((chosen_layers(case), "four names"), ([], "no names")):
        found = _asked(case, names)
        if found["error"]:
            said_so = f"{found['error']['type']}: {found['error']['message']}"
            raise Missed(f"no error with {what}", said_so, "without names every layer is free")
        lacking = [name for name, there in found["flags"].items() if not there]
        if lacking:
            raise Missed(f"the flag {lacking[0]}, with {what}", "not set", "set three flags, whatever the names")
    return ", ".join(_FLAGS)


@point("A name that no layer has is an error, and nothing is set", _SET)
def unknown(case: Case) -> str:
    typing_error, names = f"conv{case.number('mixed.typing') % 900 + 100}", chosen_layers(case)
    for wrong in ([*names, typing_error], [typing_error, *names]):
        message = _refused(_asked(case, wrong), typing_error)
    return message[:80]


def _refused(found: Kept, typing_error: str) -> str:
    """Return what the function said of a name that no layer has."""
    if not found["error"] or found["error"]["type"] != "ValueError":
        said_so = found["error"]["type"] if found["error"] else "no error"
        expected = f"ValueError for {typing_error}, which no layer is called"
        raise Missed(expected, said_so, "compare with all names first")
    touched = [name for name, layer in found["layers"].items() if layer["precision"] or any(layer["types"].values())]
    if touched or any(found["flags"].values()):
        what = f"{touched[0]} was changed" if touched else "flags were set"
        raise Missed("nothing set where a name is wrong", what, "look at all names before the first is used")
    return found["error"]["message"]
