"""Running an engine by the list of its bindings, and freeing objects by hand."""

from collections.abc import Callable, Sequence

import libcst as cst

from trtlab.migrate.expressions import code
from trtlab.migrate.findings import Finding
from trtlab.migrate.rewrites.site import Site, argument, statements


def _execute_async(finding: Finding, site: Site) -> bool:
    """Set each address by its tensor's name, then enqueue: the order of a list of bindings is that of the names."""
    call = site.called(finding.node)
    line = site.line(call) if call is not None else None
    whole = line is not None and getattr(line.body[0], "value", None) is call
    index, address = site.free_name("index", "binding_index"), site.free_name("address", "binding_address")
    if not whole or not site.is_plain(finding.node.value) or index is None or address is None:
        return False
    bindings, stream = argument(call, 0, "bindings"), argument(call, 1, "stream_handle")
    if bindings is None or stream is None or len(call.args) != 2:
        return False
    context = code(finding.node.value)

    def made(updated: cst.SimpleStatementLine) -> Sequence[cst.BaseStatement]:
        new = updated.body[0].value
        addresses, handle = code(argument(new, 0, "bindings")), code(argument(new, 1, "stream_handle"))
        loop = (
            f"for {index}, {address} in enumerate({addresses}):\n"
            f"    {context}.set_tensor_address({context}.engine.get_tensor_name({index}), int({address}))\n"
        )
        enqueue = cst.parse_expression(f"{context}.execute_async_v3(stream_handle={handle})")
        return [
            *statements(loop),
            updated.with_changes(leading_lines=[], body=[updated.body[0].with_changes(value=enqueue)]),
        ]

    return site.edits.replace_line(line, made)


def _destroy(finding: Finding, site: Site) -> bool:
    """Remove the statement: the object goes with its last reference."""
    line = site.line(finding.node)
    if (
        line is None
        or getattr(line.body[0], "value", None) is not finding.node
        or not isinstance(line.body[0], cst.Expr)
    ):
        return False
    return site.edits.replace_line(line, lambda line: [])


REWRITES: dict[str, Callable[[Finding, Site], bool]] = {
    "IExecutionContext.execute_async_v2": _execute_async,
    "destroy()": _destroy,
}
