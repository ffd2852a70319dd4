"""Repairs of what OpenVINO gets wrong in an ONNX model, made in OpenVINO's own model before it is compiled."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import openvino as ov

SINK = "/sink_port_0"  # what OpenVINO adds to an output's name


def repair(model: "ov.Model") -> None:
    """Change the model in place."""
    _copy_inputs_handed_on(model)
    _keep_infinities(model)
    _keep_order_of_ties(model)
    _keep_axes_of_sequences(model)
    _keep_fractions_of_lrn(model)
    _drop_windows_beyond_the_input(model)
    _count_only_what_windows_hold(model)


def check_shapes(model: "ov.Model", known: Mapping[str, list[Any]]) -> None:
    """Raise RuntimeError if OpenVINO gives a tensor another shape than ONNX does."""
    ports = {name: port for node in model.get_ops() for port in node.outputs() for name in port.get_names()}
    for name in ports.keys() & known.keys():
        port = ports[name]
        pairs = zip(known[name], bounds_of(port.get_partial_shape()), strict=False)
        if any(isinstance(wanted, int) and wanted >= 0 and not low <= wanted <= high for wanted, (low, high) in pairs):
            raise RuntimeError(f"OpenVINO gives tensor {name} the shape {port.get_partial_shape()}, ONNX {known[name]}")


def _copy_inputs_handed_on(model: "ov.Model") -> None:
    """Put an operator between an input and an output that is the same tensor: the plugin would fill both with zeros.

    Rolling by nothing copies, and no pass of OpenVINO's takes it out.
    """
    import openvino.opset7 as operators

    for result in model.get_results():
        source = result.input_value(0)
        if source.get_node().get_type_name() == "Parameter":
            rows = operators.unsqueeze(source, np.int64(0))
            copied = operators.squeeze(operators.roll(rows, np.int64(0), np.int64(0)), np.int64(0))
            copied.set_friendly_name(result.get_friendly_name().removesuffix(SINK))
            result.input(0).replace_source_output(copied.output(0))
    model.validate_nodes_and_infer_types()


def _keep_infinities(model: "ov.Model") -> None:
    """Let ReduceMax and ReduceMin give infinity where all values are, or where there are none.

    OpenVINO gives the largest finite number. A network that holds no infinity is left as it is: in others softmax is
    found in its parts.
    """
    import openvino.opset7 as operators

    nodes = [node for node in model.get_ops() if node.get_type_name() in ("ReduceMax", "ReduceMin")]
    infinite = nodes and any(np.isinf(node.data).any() for node in model.get_ops() if _is_float_constant(node))
    for node in nodes:
        source, axes = node.input_value(0), node.input_value(1)
        if source.get_element_type().is_real() and (infinite or 0 in source.get_partial_shape()):
            infinity = np.float32(-np.inf if node.get_type_name() == "ReduceMax" else np.inf)
            infinity = operators.convert(operators.constant(infinity), source.get_element_type().get_type_name())
            readers = list(node.output(0).get_target_inputs())
            other = operators.not_equal(source, infinity)
            any_other = operators.reduce_logical_or(other, axes, node.get_attributes()["keep_dims"])
            fixed = operators.select(any_other, node.output(0), infinity)
            for reader in readers:
                reader.replace_source_output(fixed.output(0))


def _keep_order_of_ties(model: "ov.Model") -> None:
    """Let TopK give the lower index first where values are equal, as ONNX has it."""
    import openvino.opset11 as operators

    for node in [node for node in model.get_ops() if node.get_type_name() == "TopK"]:
        how = {name: node.get_attributes()[name] for name in ("axis", "mode", "sort", "index_element_type")}
        stable = operators.topk(node.input_value(0), node.input_value(1), **how, stable=how["sort"] != "none")
        _replace(node, stable)


def _keep_axes_of_sequences(model: "ov.Model") -> None:
    """Keep the transposes around a recurrent layer apart from it: what they become is lost in the exported model.

    It would read sequences as batches. Rolling by nothing is left alone.
    """
    import openvino.opset7 as operators

    for node in model.get_ops():
        if node.get_type_name() in ("RNNSequence", "GRUSequence", "LSTMSequence"):
            rolled = operators.roll(node.input_value(0), np.int64(0), np.int64(0))
            rolled.set_friendly_name(f"{node.get_friendly_name()}/input")
            node.input(0).replace_source_output(rolled.output(0))


def _keep_fractions_of_lrn(model: "ov.Model") -> None:
    """Take the bias out of LRN where it is no integer, which the plugin makes it: (b + s)^-e is b^-e (1 + s/b)^-e."""
    import openvino.opset7 as operators

    for node in [node for node in model.get_ops() if node.get_type_name() == "LRN"]:
        how = node.get_attributes()
        bias = how["bias"]
        if bias > 0 and bias != int(bias):
            inputs = node.input_value(0), node.input_value(1)
            plain = operators.lrn(*inputs, how["alpha"] / bias, how["beta"], 1.0, how["size"])
            factor = operators.convert_like(np.float32(bias ** -how["beta"]), plain)
            scaled = operators.multiply(plain, factor)
            _replace(node, scaled)
            plain.set_friendly_name(scaled.get_friendly_name())  # it is the layer that the inspector lists
            scaled.set_friendly_name(f"{plain.get_friendly_name()}/bias")


def _drop_windows_beyond_the_input(model: "ov.Model") -> None:
    """Let MaxPool leave out a last window that starts in the padding where its size is rounded up, as ONNX has it."""
    import openvino.opset14 as operators

    for node in [node for node in model.get_ops() if node.get_type_name() == "MaxPool"]:
        how = node.get_attributes()
        if how.pop("rounding_type") == "ceil":
            sizes = {"kernel_shape": how.pop("kernel"), "rounding_type": "ceil_torch"}
            _replace(node, operators.max_pool(node.input_value(0), **how, **sizes))


def _count_only_what_windows_hold(model: "ov.Model") -> None:
    """Let AvgPool whose size is rounded up divide by how much of its padded input a window holds, not by its kernel.

    Raises:
        RuntimeError: a window may lie in the padding alone.
    """
    import openvino.opset14 as operators

    for node in [node for node in model.get_ops() if node.get_type_name() == "AvgPool"]:
        how, source = node.get_attributes(), node.input_value(0)
        if how["rounding_type"] == "floor" or how["exclude-pad"] or how["auto_pad"].startswith("same"):
            continue
        begin, end, kernel, strides = (how[name] for name in ("pads_begin", "pads_end", "kernel", "strides"))
        sides = zip(bounds_of(source.get_partial_shape())[2:], begin, end, kernel, strides, strict=False)
        if all(low == high and (low + b + e - size) % stride == 0 for (low, high), b, e, size, stride in sides):
            continue
        if any(more + stride > size for more, stride, size in zip(end, strides, kernel, strict=True) if more):
            raise RuntimeError(
                f"{node.get_friendly_name()}: the CPU engine has no AveragePool that counts padding and is rounded up "
                "to windows in the padding alone"
            )
        if any([*begin, *end]):
            source = operators.pad(source, [0, 0, *begin], [0, 0, *end], "constant", np.float32(0))
        none = [0] * len(kernel)
        _replace(node, operators.avg_pool(source, strides, none, none, kernel, True, "ceil_torch", "explicit"))


def _replace(node: "ov.Node", other: "ov.Node") -> None:
    """Put a node in another's place, with its name and its outputs' names."""
    other.set_friendly_name(node.get_friendly_name())
    for index, output in enumerate(node.outputs()):
        names = output.get_names()
        for reader in list(output.get_target_inputs()):
            reader.replace_source_output(other.output(index))
        other.output(index).set_names(names)


def _is_float_constant(node: "ov.Node") -> bool:
    return node.get_type_name() == "Constant" and node.get_element_type().is_real()


def bounds_of(shape: "ov.PartialShape") -> list[tuple[int, int]]:
    """Return the smallest and largest size of each dimension, -1 for no largest; empty for an unknown rank."""
    if shape.rank.is_dynamic:
        return []
    return [(d.get_min_length(), d.get_max_length()) for d in shape]
