"""Renamed members, and bindings by index that are tensors by name now."""

import re
from collections.abc import Callable

import libcst as cst

from trtcpu.api_changes import load_changes
from trtlab.migrate.expressions import code
from trtlab.migrate.findings import CUSTOMARY, Finding
from trtlab.migrate.rewrites.site import Site, argument, expression

_PLAIN = re.compile(r"(\w+)((?:\.\w+)+)")
_OTHERWISE = {"IBuilderConfig.min_timing_iterations", "IStreamReader", "IPlugin", "IPluginExt", "IPluginFactory"}
"""What has a new name that is used otherwise."""
_BY_NAME = {
    "ICudaEngine.get_binding_bytes_per_component": "get_tensor_bytes_per_component",
    "ICudaEngine.get_binding_components_per_element": "get_tensor_components_per_element",
    "ICudaEngine.get_binding_dtype": "get_tensor_dtype",
    "ICudaEngine.get_binding_format": "get_tensor_format",
    "ICudaEngine.get_binding_format_desc": "get_tensor_format_desc",
    "ICudaEngine.get_binding_shape": "get_tensor_shape",
    "ICudaEngine.get_binding_vectorized_dim": "get_tensor_vectorized_dim",
    "ICudaEngine.get_location": "get_tensor_location",
    "ICudaEngine.is_shape_binding": "is_shape_inference_io",
    "IExecutionContext.get_binding_shape": "get_tensor_shape",
    "IExecutionContext.get_strides": "get_tensor_strides",
}
_NO_PARENTHESES = (
    cst.If,
    cst.While,
    cst.Assign,
    cst.Arg,
    cst.CompIf,
    cst.Return,
    cst.Assert,
    cst.Element,
    cst.BooleanOperation,
)


def renamed(finding: Finding, site: Site) -> bool:
    """Rewrite a member of the same class, or a class, whose replacement is only another name."""
    plain = _PLAIN.fullmatch(finding.replacement)
    change = load_changes().get(finding.name)
    if change is None or change.replacement != finding.replacement:  # the replacement is gone as well
        return False
    if not isinstance(finding.node, cst.Attribute) or plain is None or finding.name in _OTHERWISE:
        return False
    owner, _, member = finding.name.rpartition(".")
    new_owner, _, new_member = plain[2][1:].rpartition(".")
    kind = new_owner if plain[1] == "trt" else CUSTOMARY.get(plain[1], "")
    if kind != owner and not (plain[1] == "layer" and owner.endswith("Layer")):
        return False
    return site.edits.replace(finding.node, lambda node: node.with_changes(attr=cst.Name(new_member)))


def _name_of(binding: cst.BaseExpression, owner: cst.BaseExpression, site: Site) -> str | None:
    """Return the code of a binding's name: the binding itself where it is text, looked up where it is an index."""
    kinds = site.meanings.of(binding)
    if kinds == {"str"}:
        return code(binding)
    engine = code(owner) + (".engine" if "IExecutionContext" in site.meanings.of(owner) else "")
    return f"{engine}.get_tensor_name({code(binding)})" if kinds == {"int"} and site.is_plain(owner) else None


def _call_by_name(finding: Finding, site: Site, made: Callable[[str, str, cst.Call], str | None], at: int = 0) -> bool:
    """Rewrite a call with a binding as argument `at` to `made(owner, name, call)`."""
    call = site.called(finding.node)
    binding = argument(call, at, "index", "name", "binding") if call is not None else None
    name = _name_of(binding, finding.node.value, site) if binding is not None else None
    if name is None or made(code(finding.node.value), name, call) is None:
        return False

    def rewritten(updated: cst.Call) -> cst.BaseExpression:
        new_name = _name_with(argument(updated, at, "index", "name", "binding"), binding, name)
        new = expression(made(code(updated.func.value), new_name, updated))
        return new.with_changes(lpar=[*updated.lpar, *new.lpar], rpar=[*new.rpar, *updated.rpar])

    return site.edits.replace(call, rewritten)


def _name_with(updated: cst.BaseExpression, original: cst.BaseExpression, name: str) -> str:
    return name.replace(code(original), code(updated)) if code(updated) != code(original) else name


def _by_name(finding: Finding, site: Site) -> bool:
    method = _BY_NAME[finding.name]
    return _call_by_name(finding, site, lambda owner, name, call: f"{owner}.{method}({name})")


def _is_input(finding: Finding, site: Site) -> bool:
    trt, call = site.trt(finding.node), site.called(finding.node)
    if trt is None or call is None:
        return False
    bare = isinstance(site.parents[call], _NO_PARENTHESES)

    def made(owner: str, name: str, call: cst.Call) -> str:
        test = f"{owner}.get_tensor_mode({name}) == {trt}.TensorIOMode.INPUT"
        return test if bare else f"({test})"

    return _call_by_name(finding, site, made)


def _set_input_shape(finding: Finding, site: Site) -> bool:
    def made(owner: str, name: str, call: cst.Call) -> str | None:
        shape = argument(call, 1, "shape")
        return f"{owner}.set_input_shape({name}, {code(shape)})" if shape is not None else None

    return _call_by_name(finding, site, made)


def _profile_shape(finding: Finding, site: Site) -> bool:
    def made(owner: str, name: str, call: cst.Call) -> str | None:
        index = argument(call, 0, "profile_index")
        return f"{owner}.get_tensor_profile_shape({name}, {code(index)})" if index is not None else None

    return _call_by_name(finding, site, made, at=1)


def _number_of_tensors(finding: Finding, site: Site) -> bool:
    return site.edits.replace(finding.node, lambda call: expression(f"{code(call.args[0].value)}.num_io_tensors"))


def _always_explicit(finding: Finding, site: Site) -> bool:
    return site.edits.replace(finding.node, lambda node: cst.Name("False", lpar=node.lpar, rpar=node.rpar))


def _context_without_memory(finding: Finding, site: Site) -> bool:
    trt, call = site.trt(finding.node), site.called(finding.node)
    if trt is None or call is None or call.args:
        return False
    strategy = f"{trt}.ExecutionContextAllocationStrategy.USER_MANAGED"
    return site.edits.replace(
        call, lambda call: expression(f"{code(call.func.value)}.create_execution_context({strategy})")
    )


def _renamed_method(new: str) -> Callable[[Finding, Site], bool]:
    """Return the rewrite of a method whose replacement takes the same arguments."""

    def rewrite(finding: Finding, site: Site) -> bool:
        return site.edits.replace(finding.node, lambda node: node.with_changes(attr=cst.Name(new)))

    return rewrite


REWRITES: dict[str, Callable[[Finding, Site], bool]] = {
    **dict.fromkeys(_BY_NAME, _by_name),
    "ICudaEngine.binding_is_input": _is_input,
    "ICudaEngine.get_profile_shape": _profile_shape,
    "IExecutionContext.set_binding_shape": _set_input_shape,
    "ICudaEngine.get_binding_name": _renamed_method("get_tensor_name"),
    "ICudaEngine.get_device_memory_size_for_profile": _renamed_method("get_device_memory_size_for_profile_v2"),
    "ICudaEngine.has_implicit_batch_dimension": _always_explicit,
    "ICudaEngine.create_execution_context_without_device_memory": _context_without_memory,
    "len(ICudaEngine)": _number_of_tensors,
}
