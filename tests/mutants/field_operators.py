"""Faults of this field: precision, shapes, copies, synchronisation, statistics, units, files, image layout."""

from collections.abc import Iterable

import libcst as cst

from tests.mutants.operators import RELEASES, Operator, attribute_name, called_name

_OTHER_NUMBERS = {
    "224": ("256", "32"),
    "256": ("224",),
    "255": ("256", "1"),
    "8": ("4", "32"),
    "32": ("16", "64"),
    "95": ("99", "90"),
    "99": ("95", "100"),
    "1e3": ("1e6", "1"),
    "100": ("1", "1000"),
    "1e6": ("1e3",),
    "30": ("20",),
    "1.1": ("1.01", "1.5"),
    "5": ("1",),
}
_OTHER_NAMES = {
    "FP16": ("TF32", "INT8"),
    "INT8": ("FP16", "TF32"),
    "float32": ("float64", "float16"),
    "BILINEAR": ("NEAREST", "BICUBIC"),
    "perf_counter": ("process_time", "perf_counter_ns"),
    "INPUT": ("OUTPUT",),
    "WORKSPACE": ("DLA_MANAGED_SRAM",),
    "num_errors": ("num_layers",),
    "memcpy_htod": ("memcpy_dtoh",),
    "memcpy_htod_async": ("memcpy_htod",),
    "memcpy_dtoh_async": ("memcpy_dtoh",),
    "pagelocked_empty": ("pagelocked_zeros",),
    "nbytes": ("size",),
    "handle": ("synchronize",),
    "indices": ("values",),
    "device_memory_size": ("num_layers",),
    "st_size": ("st_blocks",),
    "MEAN": ("STD",),
    "STD": ("MEAN",),
}
_OTHER_STRINGS = {
    "input": ("output",),
    "output": ("input",),
    "RGB": ("YCbCr", "L"),
    "mean_ms": ("median_ms",),
    "median_ms": ("mean_ms", "p95_ms"),
    "p95_ms": ("p99_ms",),
    "p99_ms": ("p95_ms",),
    "top1": ("top5",),
    "top5": ("top1",),
    "fp32": ("fp16", "pytorch-fp32"),
    "fp16": ("fp32",),
    "int8": ("fp16",),
    "pytorch-fp32": ("fp32",),
    "throughput": ("latency_ms", "latency"),
    "latency": ("throughput",),
    "latency_ms": ("throughput",),
    "speedup": ("throughput",),
    "accuracy_loss": ("accuracy",),
    "sizes_bytes": ("memory_bytes",),
    "memory_bytes": ("sizes_bytes",),
    "32": ("16", "1"),
    "1": ("32",),
    "batch": ("images",),
    "unsafe": ("same_kind",),
}
_IN_ORDER = {
    "synchronize",
    "perf_counter",
    "close",
    "free",
    "allocate_buffers",
    "set_input_shape",
    "copyto",
    "memcpy_htod",
    "memcpy_htod_async",
    "memcpy_dtoh_async",
    "execute_async_v3",
    "write_bytes",
    "build_serialized_network",
}
"""Calls whose place among their neighbours matters."""


def _number(node: cst.BaseNumber) -> Iterable[cst.CSTNode]:
    for other in _OTHER_NUMBERS.get(node.value, ()):
        yield cst.parse_expression(other)


def _name(node: cst.Attribute | cst.Name) -> Iterable[cst.CSTNode]:
    if isinstance(node, cst.Attribute):
        for other in _OTHER_NAMES.get(node.attr.value, ()):
            yield node.with_changes(attr=cst.Name(other))
    elif node.value in ("MEAN", "STD"):
        yield cst.Name(_OTHER_NAMES[node.value][0])


def _string(node: cst.SimpleString) -> Iterable[cst.CSTNode]:
    for other in _OTHER_STRINGS.get(str(node.evaluated_value), ()):
        yield node.with_changes(value=repr(other))


def _deviation(node: cst.Call) -> Iterable[cst.CSTNode]:
    if called_name(node) == "std":
        yield node.with_changes(args=[*node.args, cst.Arg(cst.Integer("1"), keyword=cst.Name("ddof"))])


def _shared(node: cst.Call) -> Iterable[cst.CSTNode]:
    """Give `astype` that copies only where it must: the caller gets the buffer itself."""
    if called_name(node) == "astype":
        yield node.with_changes(args=[*node.args, cst.Arg(cst.Name("False"), keyword=cst.Name("copy"))])


def _channels(node: cst.Call) -> Iterable[cst.CSTNode]:
    if called_name(node) == "asarray":
        code = cst.Module([]).code_for_node(node)
        yield cst.parse_expression(f"{code}[..., ::-1]")


def _own_context(node: cst.Call) -> Iterable[cst.CSTNode]:
    """Give a call on a context that is made for this one call."""
    context = node.func.value if isinstance(node.func, cst.Attribute) else None
    if context is not None and attribute_name(context) == "context":
        made = cst.parse_expression("self.engine.create_execution_context()")
        yield node.with_changes(func=node.func.with_changes(value=made))


def _every_call(node: cst.CSTNode) -> set[str]:
    found: set[str] = set()

    class Calls(cst.CSTVisitor):
        def visit_Call(self, node: cst.Call) -> None:
            found.add(called_name(node))

    node.visit(Calls())
    return found


def _after_docstring(block: cst.IndentedBlock) -> int:
    first = block.body[0]
    simple = isinstance(first, cst.SimpleStatementLine) and isinstance(first.body[0], cst.Expr)
    return int(simple and isinstance(first.body[0].value, cst.SimpleString))


def _swap_lines(block: cst.IndentedBlock) -> Iterable[cst.CSTNode]:
    """Exchange neighbouring statements of which one waits, times, allocates, copies, runs or frees."""
    lines = block.body
    for index in range(_after_docstring(block), len(lines) - 1):
        pair = lines[index : index + 2]
        if not all(isinstance(line, cst.SimpleStatementLine) for line in pair):
            continue
        if any(isinstance(line.body[0], (cst.Return, cst.Raise)) for line in pair):
            continue
        calls = [_every_call(line) for line in pair]
        if _IN_ORDER & (calls[0] | calls[1]) and (all(calls) or any(map(_sets_attribute, pair))):
            yield block.with_changes(body=[*lines[:index], pair[1], pair[0], *lines[index + 2 :]])


def _sets_attribute(line: cst.SimpleStatementLine) -> bool:
    """Return whether the statement sets an attribute, which a method may use; other statements without a call wait."""
    small = line.body[0]
    return isinstance(small, cst.Assign) and any(isinstance(target.target, cst.Attribute) for target in small.targets)


def _early_release(block: cst.IndentedBlock) -> Iterable[cst.CSTNode]:
    """Move a statement that waits or frees to the start of its block."""
    start = _after_docstring(block)
    for index, line in enumerate(block.body):
        if index > start and isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], cst.Expr):
            if called_name(line.body[0].value) in RELEASES:
                others = [*block.body[start:index], *block.body[index + 1 :]]
                yield block.with_changes(body=[*block.body[:start], line, *others])


FIELD: list[Operator] = [
    Operator("other_number", (cst.Integer, cst.Float), _number),
    Operator("other_name", (cst.Attribute, cst.Name), _name),
    Operator("other_string", (cst.SimpleString,), _string),
    Operator("sample_deviation", (cst.Call,), _deviation),
    Operator("shared_buffer", (cst.Call,), _shared),
    Operator("channel_order", (cst.Call,), _channels),
    Operator("context_per_call", (cst.Call,), _own_context),
    Operator("swap_lines", (cst.IndentedBlock,), _swap_lines),
    Operator("early_release", (cst.IndentedBlock,), _early_release),
]
