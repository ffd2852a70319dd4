"""Building: options that moved from the builder to its configuration, engines from plans, flags of what always is."""

from collections.abc import Callable, Sequence

import libcst as cst
import libcst.matchers as m

from trtlab.migrate.expressions import code
from trtlab.migrate.findings import Finding
from trtlab.migrate.rewrites.configuration import configuration_of
from trtlab.migrate.rewrites.site import Site, argument, expression, statements

_FLAGS = {  # the flag in place of the builder's option, and the last version that has it
    "Builder.fp16_mode": ("FP16", 10),
    "Builder.int8_mode": ("INT8", 10),
    "Builder.strict_type_constraints": ("OBEY_PRECISION_CONSTRAINTS", 10),
    "Builder.refittable": ("REFIT", 11),
    "Builder.debug_sync": ("DEBUG", 11),
}


def _set_on_configuration(finding: Finding, site: Site, made: Callable[[str, str], str]) -> bool:
    """Rewrite `builder.option = value` to the statement `made(configuration, value)`, no statement where that is ""."""
    line = site.assigned(finding.node)
    config = configuration_of(finding.node.value, finding.node, site) if line is not None else None
    if config is None:
        return False
    return site.edits.replace_line(line, lambda line: statements(made(config, code(line.body[0].value))))


def _workspace(finding: Finding, site: Site) -> bool:
    trt = site.trt(finding.node)
    if trt is None:
        return False
    pool = f"{trt}.MemoryPoolType.WORKSPACE"
    return _set_on_configuration(finding, site, lambda config, size: f"{config}.set_memory_pool_limit({pool}, {size})")


def _workspace_of_configuration(finding: Finding, site: Site) -> bool:
    trt, target = site.trt(finding.node), site.parents[finding.node]
    if trt is None or isinstance(target, cst.AugAssign):
        return False
    config, pool = code(finding.node.value), f"{trt}.MemoryPoolType.WORKSPACE"
    if not isinstance(target, cst.AssignTarget):
        return site.edits.replace(finding.node, lambda node: expression(f"{config}.get_memory_pool_limit({pool})"))
    statement = site.parents[target]
    if len(statement.targets) > 1:
        return False

    def made(statement: cst.Assign) -> cst.Expr:
        call = expression(f"{config}.set_memory_pool_limit({pool}, {code(statement.value)})")
        return cst.Expr(call, semicolon=statement.semicolon)

    return site.edits.replace(statement, made)


def _flag(finding: Finding, site: Site) -> bool:
    flag, last = _FLAGS[finding.name]
    line, trt = site.assigned(finding.node), site.trt(finding.node)
    if line is None or trt is None:
        return False
    value = code(line.body[0].value)
    if value in ("False", "0"):
        return site.edits.replace_line(line, lambda line: [])
    if site.to > last:
        return False

    def made(config: str, value: str) -> str:
        setting = f"{config}.set_flag({trt}.BuilderFlag.{flag})"
        return setting if value in ("True", "1") else f"if {value}:\n    {setting}\n"

    return _set_on_configuration(finding, site, made)


def _timing_iterations(finding: Finding, site: Site) -> bool:
    return _set_on_configuration(finding, site, lambda config, value: f"{config}.avg_timing_iterations = {value}")


def _calibrator(finding: Finding, site: Site) -> bool:
    if site.to > 10:
        return False
    return _set_on_configuration(finding, site, lambda config, value: f"{config}.int8_calibrator = {value}")


def _batch_of_builder(finding: Finding, site: Site) -> bool:
    """Remove the largest batch of a builder whose networks have explicit batches, where it did nothing."""
    line = site.assigned(finding.node)
    if line is None or "EXPLICIT_BATCH" not in site.meanings.identifiers:
        return False
    return site.edits.replace_line(line, lambda line: [])


def _batch_of_engine(finding: Finding, site: Site) -> bool:
    """Remove the factor `engine.max_batch_size` of a product: a tensor's shape holds the batch."""
    product = site.parents[finding.node]
    if not m.matches(product, m.BinaryOperation(operator=m.Multiply())):
        return False
    on_the_left = product.left is finding.node
    return site.edits.replace(
        product,
        lambda product: (product.right if on_the_left else product.left).with_changes(
            lpar=[*product.lpar, *(product.right if on_the_left else product.left).lpar],
            rpar=[*(product.right if on_the_left else product.left).rpar, *product.rpar],
        ),
    )


def _build_engine(finding: Finding, site: Site) -> bool:
    """Build the plan and load it; None where the build failed, as before."""
    call, trt = site.called(finding.node), site.trt(finding.node)
    if call is None or trt is None or not site.is_plain(finding.node.value):
        return False
    network, config = argument(call, 0, "network"), argument(call, 1, "config")
    if finding.name == "Builder.build_cuda_engine":
        made = configuration_of(finding.node.value, call, site) if network is not None else None
        config = expression(made) if made is not None else None
    if network is None or config is None:
        return False
    builder = code(finding.node.value)
    load = f"{trt}.Runtime({builder}.logger).deserialize_cuda_engine"

    def plan(call: cst.Call) -> str:
        made = code(argument(call, 1, "config")) if finding.name == "Builder.build_engine" else code(config)
        return f"{builder}.build_serialized_network({code(argument(call, 0, 'network'))}, {made})"

    if (serialized := _serialized(call, site)) is not None:
        return site.edits.replace(serialized, lambda outer: expression(plan(outer.func.value)))
    line, name = site.line(call), site.free_name("plan", "serialized_engine")
    if line is None or name is None or not _is_value(line.body[0], call):
        return site.edits.replace(call, lambda call: expression(f"{load}({plan(call)})"))

    def made_lines(line: cst.SimpleStatementLine) -> Sequence[cst.BaseStatement]:
        value = expression(f"{load}({name}) if {name} is not None else None")
        last = line.with_changes(leading_lines=[], body=[line.body[0].with_changes(value=value)])
        return [*statements(f"{name} = {plan(line.body[0].value)}"), last]

    return site.edits.replace_line(line, made_lines)


def _serialized(call: cst.Call, site: Site) -> cst.Call | None:
    """Return `call.serialize()`, whose result is the plan itself."""
    outer = site.parents[call]
    return site.called(outer) if isinstance(outer, cst.Attribute) and outer.attr.value == "serialize" else None


def _is_value(small: cst.BaseSmallStatement, call: cst.Call) -> bool:
    return isinstance(small, (cst.Assign, cst.Return)) and small.value is call


def _explicit_batch(finding: Finding, site: Site) -> bool:
    """Remove `1 << int(…EXPLICIT_BATCH)` from flags; 0 where it is the only one."""
    node = _flag_bit(finding.node, site)
    if node is None:
        return False
    parent = site.parents[node]
    if m.matches(parent, m.BinaryOperation(operator=m.BitOr())):
        on_the_left = parent.left is node
        return site.edits.replace(parent, lambda parent: parent.right if on_the_left else parent.left)
    call = site.parents.get(parent)
    if isinstance(parent, cst.Arg) and m.matches(call, m.Call(func=m.Attribute(attr=m.Name("create_network")))):
        if site.edits.replace(call, lambda call: call.with_changes(args=[])):
            return True
    return site.edits.replace(node, lambda node: cst.Integer("0"))


def _explicit_batch_as_number(finding: Finding, site: Site) -> bool:
    """Remove the flags of `create_network(1)`, which are those of an explicit batch alone."""
    if [code(each.value).replace(" ", "") for each in finding.node.args] not in (["1"], ["1<<0"]):
        return False
    return site.edits.replace(finding.node, lambda call: call.with_changes(args=[]))


def _flag_bit(node: cst.CSTNode, site: Site) -> cst.CSTNode | None:
    """Return `1 << int(node)`, also without `int`; None where the flag stands otherwise."""
    parent = site.parents[node]
    if isinstance(parent, cst.Arg):
        call = site.parents[parent]
        node = call if isinstance(call, cst.Call) and code(call.func).strip("()") == "int" else node
        parent = site.parents[node]
    shift = m.BinaryOperation(operator=m.LeftShift(), left=m.Integer("1"))
    return parent if m.matches(parent, shift) and parent.right is node else None


def _preview(finding: Finding, site: Site) -> bool:
    """Remove the statement that switches on a preview feature that is always on."""
    line = site.line(finding.node)
    setting = m.Expr(m.Call(func=m.Attribute(attr=m.Name("set_preview_feature"))))
    if line is None or not m.matches(line.body[0], setting):
        return False
    return site.edits.replace_line(line, lambda line: [])


REWRITES: dict[str, Callable[[Finding, Site], bool]] = {
    **dict.fromkeys(_FLAGS, _flag),
    "Builder.max_workspace_size": _workspace,
    "IBuilderConfig.max_workspace_size": _workspace_of_configuration,
    "Builder.average_find_iterations": _timing_iterations,
    "Builder.int8_calibrator": _calibrator,
    "Builder.max_batch_size": _batch_of_builder,
    "ICudaEngine.max_batch_size": _batch_of_engine,
    "Builder.build_engine": _build_engine,
    "Builder.build_cuda_engine": _build_engine,
    "NetworkDefinitionCreationFlag.EXPLICIT_BATCH": _explicit_batch,
    "Builder.create_network(number)": _explicit_batch_as_number,
    "PreviewFeature.DISABLE_EXTERNAL_TACTIC_SOURCES_FOR_CORE_0805": _preview,
    "PreviewFeature.FASTER_DYNAMIC_SHAPES_0805": _preview,
    "PreviewFeature.PROFILE_SHARING_0806": _preview,
    "PreviewFeature.MULTIDEVICE_RUNTIME_10_16": _preview,
}
