"""keep_in_half(network, config, names): what it sets on a network, and what it leaves alone."""

from collections.abc import Callable
from functools import partial
from typing import Any

from helpers.checks.points.case import Case
from helpers.checks.points.pure import Answered, OneOf, compare, results_of
from helpers.checks.points.s09_mixed_precision.networks import ACTIVATIONS, CONVOLUTIONS, KEPT, LAST, mixed_onnx
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.engine.backend import network_flags, trt

_SET = "the settings of a network before the build: it lives in the student's process"
_FLAGS = ("INT8", "FP16", "OBEY_PRECISION_CONSTRAINTS")
_UNSET = "nothing set"
_NAMES = [*KEPT, LAST]
_OUTPUTS = ("conv0", "relu0", "conv1", "relu1", "conv2", "relu2", "conv3", "relu3", "output")

FUNCTION = "keep_in_half"
LAYERS = Task("mixed_layers", check="check_kept_layers", takes=(FUNCTION,))


@probe
def kept_layers(notebook: Notebook, *, name: str, calls: list[list[Any]], raising: bool, onnx: bytes) -> list[Answered]:
    """Answer like `results_of`; each call gets a new network and configuration, and returns their settings."""
    return results_of({name: partial(_set_by, notebook[name], onnx)}, name=name, calls=calls, raising=raising)


def _set_by(keep: Callable[..., None], onnx: bytes, names: list[str]) -> dict[str, Any]:
    logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
    builder = trt.Builder(logger)
    network, config = builder.create_network(network_flags()), builder.create_builder_config()
    parser, raised = trt.OnnxParser(network, logger), "no exception"
    parser.parse(onnx)
    try:
        keep(network, config, list(names))
    except ValueError:
        raised = "ValueError"
    layers = [network.get_layer(index) for index in range(network.num_layers)]
    return {
        "raised": raised,
        "flags": {name: config.get_flag(getattr(trt.BuilderFlag, name)) for name in _FLAGS},
        "precisions": {layer.name: _name(layer.precision, layer.precision_is_set) for layer in layers},
        "types": {
            layer.get_output(0).name: _name(layer.get_output_type(0), layer.output_type_is_set(0)) for layer in layers
        },
    }


def _name(dtype: Any, is_set: bool) -> str:
    return str(dtype).rpartition(".")[2] if is_set else _UNSET


def _sets(case: Case, pairs: list[tuple[list[str], dict[str, Any]]], advice: str) -> str:
    """Return evidence that the settings are right for each list of names."""
    given = {"onnx": mixed_onnx(case.number("mixed.network"))}
    calls = [((names,), right) for names, right in pairs]
    return compare(case, FUNCTION, calls, advice, through=kept_layers, given=given)


@LAYERS.point("mixed.precisions", 0.25, "Named layers are set to FP16, other convolutions to INT8", _SET)
def precisions(case: Case) -> str:
    others = dict.fromkeys(ACTIVATIONS, _UNSET) | dict.fromkeys(CONVOLUTIONS, "INT8")
    advice = "set HALF on the layers in `names`, INT8 on all other convolutions, nothing on other layers"
    return _sets(case, [(_NAMES, {"precisions": others | dict.fromkeys(_NAMES, "HALF")})], advice)


@LAYERS.point("mixed.types", 0.2, "Named layers' outputs are FP16, except the network's", _SET)
def types(case: Case) -> str:
    right = dict.fromkeys(_OUTPUTS, _UNSET) | dict.fromkeys(KEPT, "HALF") | {"output": OneOf((_UNSET, "FLOAT"))}
    advice = "call set_output_type on each output of the named layers, except outputs of the network"
    return _sets(case, [(_NAMES, {"types": right})], advice)


@LAYERS.point("mixed.flags", 0.15, "INT8 and FP16 are allowed, and layer precisions obeyed", _SET)
def flags(case: Case) -> str:
    right = {"flags": dict.fromkeys(_FLAGS, True)}
    return _sets(case, [(_NAMES, right), ([], right)], "set all three flags, whatever the names")


@LAYERS.point("mixed.unknown", 0.15, "An unknown layer name raises ValueError, and nothing is set", _SET)
def unknown(case: Case) -> str:
    wrong = f"conv{case.number('mixed.typing') % 900 + 100}"
    nothing = dict.fromkeys((*CONVOLUTIONS, *ACTIVATIONS), _UNSET)
    right = {"raised": "ValueError", "flags": dict.fromkeys(_FLAGS, False), "precisions": nothing}
    return _sets(case, [([*_NAMES, wrong], right), ([wrong, *_NAMES], right)], "check all names before you use one")
