"""Faults that any programmer makes: mutmut's operators, used as a library, and more of our own.

An operator takes a node of libcst's tree and gives the nodes that may stand in its place, each of them one mutant.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst
from mutmut.mutation import mutators as mutmut

LOOKS = {
    "alpha", "border", "color", "dpi", "figsize", "float_format", "fmt", "fontsize", "frameon", "ha", "indent",
    "layout", "linestyle", "linewidth", "loc", "marker", "markersize", "na_rep", "ncols", "padding", "textcoords", "va",
    "width", "x", "y",
}  # fmt: skip
"""Keyword arguments of matplotlib, pandas and json that change only the looks."""

Make = Callable[[Any], Iterable[cst.CSTNode]]


@dataclass(frozen=True)
class Operator:
    """A kind of fault: its name, the nodes that it changes, and what it makes of one."""

    name: str
    kinds: tuple[type[cst.CSTNode], ...]
    make: Make


RELEASES = {"close", "free", "synchronize", "detach", "pop"}
"""Calls that give something back or wait for it; leaving one out is a fault of its own."""

_CONVERSIONS = {"float", "int", "str", "list", "tuple", "set", "round", "abs", "Path", "asarray", "ascontiguousarray"}
"""`Path(onnx_path)` is none, and `str(path)`: what is called a path is one here, and libraries take it as it is."""

_ORDERS = {"sorted", "reversed"}
_COPIES = {"copy", "clone", "contiguous", "deepcopy", "array"}
_STEPS_OF_A_CHAIN = {"astype", "lower", "upper", "strip", "convert", "resize", "crop", "transpose", "unlink"}
_SIBLINGS = {
    "mean": ("median",),
    "median": ("mean",),
    "std": ("var",),
    "percentile": ("quantile",),
    "min": ("max",),
    "max": ("min",),
    "argmax": ("argmin",),
    "sum": ("mean", "max"),
    "all": ("any",),
    "any": ("all",),
    "append": ("extend",),
    "glob": ("rglob",),
    "is_file": ("is_dir",),
    "eval": ("train",),
    "items": ("values",),
    "keys": ("values",),
    "values": ("keys",),
    "setdefault": ("get",),
    "write_bytes": ("write_text",),
    "write_text": ("write_bytes",),
    "read_bytes": ("read_text",),
    "read_text": ("read_bytes",),
    "hexdigest": ("digest",),
    "dumps": ("dump",),
    "topk": ("sort",),
    "round": ("int",),
    "zip": ("product",),
}


def called_name(node: cst.CSTNode) -> str:
    """Return the last name of what is called: `free` of `buffer.free()`; empty for any other node."""
    if not isinstance(node, cst.Call):
        return ""
    return node.func.value if isinstance(node.func, cst.Name) else attribute_name(node.func)


def attribute_name(node: cst.CSTNode) -> str:
    """Return `c` of `a.b.c`; empty for any other node."""
    return node.attr.value if isinstance(node, cst.Attribute) else ""


def _first(make: Make) -> Make:
    return lambda node: list(make(node))[:1]


def _fewer_arguments(node: cst.Call) -> Iterable[cst.Call]:
    if len(node.args) == 1 and node.args[0].keyword:
        yield node.with_changes(args=[])
    plain = {argument for argument in node.args if argument.keyword and argument.keyword.value in LOOKS}
    for found in mutmut.operator_arg_removal(node):
        if len(found.args) < len(node.args) and plain <= set(found.args):
            yield found


def _nothing() -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine([cst.Pass()])


def _is_release(line: cst.SimpleStatementLine) -> bool:
    small = line.body[0]
    return isinstance(small, cst.Del) or (isinstance(small, cst.Expr) and called_name(small.value) in RELEASES)


def _drop_line(line: cst.SimpleStatementLine) -> Iterable[cst.CSTNode]:
    small = line.body[0]
    if isinstance(small, (cst.Expr, cst.Assign, cst.AugAssign, cst.Break, cst.Continue)) and not _is_release(line):
        yield _nothing()


def _drop_release(line: cst.SimpleStatementLine) -> Iterable[cst.CSTNode]:
    if _is_release(line):
        yield _nothing()


def _swallow_error(line: cst.SimpleStatementLine) -> Iterable[cst.CSTNode]:
    if isinstance(line.body[0], cst.Raise):
        yield _nothing()
        yield cst.SimpleStatementLine([cst.Return(cst.Name("None"))])


def _drop_block(node: cst.CSTNode) -> Iterable[cst.CSTNode]:
    yield _nothing()


def _missing_return(node: cst.Return) -> Iterable[cst.CSTNode]:
    if node.value is not None:
        yield cst.Expr(node.value)


def _neighbours_swapped(items: Sequence[Any], swappable: Callable[[Any], bool]) -> Iterable[list[Any]]:
    for index in range(len(items) - 1):
        left, right = items[index], items[index + 1]
        if swappable(left) and swappable(right):
            swapped = left.with_changes(value=right.value), right.with_changes(value=left.value)
            yield [*items[:index], *swapped, *items[index + 2 :]]


def _swap_arguments(node: cst.Call) -> Iterable[cst.Call]:
    for args in _neighbours_swapped(node.args, lambda arg: not arg.star and arg.keyword is None):
        yield node.with_changes(args=args)


def _swap_elements(node: cst.Tuple | cst.List) -> Iterable[cst.CSTNode]:
    for elements in _neighbours_swapped(node.elements, lambda element: isinstance(element, cst.Element)):
        yield node.with_changes(elements=elements)


def _drop_element(node: cst.Tuple | cst.List | cst.Dict) -> Iterable[cst.CSTNode]:
    if len(node.elements) > 1:
        for index in range(len(node.elements)):
            yield node.with_changes(elements=[*node.elements[:index], *node.elements[index + 1 :]])


def _parenthesised(node: cst.BaseExpression) -> cst.BaseExpression:
    return node if node.lpar else node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _negate(node: Any) -> Iterable[cst.CSTNode]:
    yield node.with_changes(test=cst.UnaryOperation(cst.Not(), _parenthesised(node.test)))


def _one_less(node: cst.Integer | cst.Float) -> Iterable[cst.CSTNode]:
    value = node.evaluated_value - 1
    yield node.with_changes(value=repr(value)) if value >= 0 else cst.parse_expression(f"({value!r})")


def _one_side(node: cst.BinaryOperation | cst.BooleanOperation) -> Iterable[cst.CSTNode]:
    yield _parenthesised(node.left)
    yield _parenthesised(node.right)


def _integer_division(node: cst.BinaryOperation) -> Iterable[cst.CSTNode]:
    if isinstance(node.operator, cst.Divide):
        yield node.with_changes(operator=cst.FloorDivide())


def _without(names: set[str]) -> Make:
    """Return what gives `x` for `f(x)`, `module.f(x)` and `x.f()`, where `f` is one of `names`."""

    def make(node: cst.Call) -> Iterable[cst.CSTNode]:
        if called_name(node) not in names or _converts_a_path(node):
            return
        if node.args and (isinstance(node.func, cst.Name) or called_name(node) in _CONVERSIONS | _COPIES):
            yield node.args[0].value
        elif isinstance(node.func, cst.Attribute):
            yield node.func.value

    return make


def _converts_a_path(node: cst.Call) -> bool:
    of = node.args[0].value if node.args else None
    name = of.value if isinstance(of, cst.Name) else ""
    if called_name(node) == "str":
        return name.endswith("path") or name in ("src", "dst")
    return called_name(node) == "Path" and name.endswith("_path")


def _sibling(node: cst.Call) -> Iterable[cst.CSTNode]:
    for other in _SIBLINGS.get(called_name(node), ()):
        name = cst.Name(other)
        yield node.with_changes(func=name if isinstance(node.func, cst.Name) else node.func.with_changes(attr=name))


def _whole_slice(node: cst.Subscript) -> Iterable[cst.CSTNode]:
    if any(isinstance(element.slice, cst.Slice) for element in node.slice):
        yield node.value


def _part_of(iterable: cst.BaseExpression, bounds: str) -> cst.BaseExpression:
    return cst.parse_expression(f"list({cst.Module([]).code_for_node(iterable)})[{bounds}]")


def _shorter_loop(node: cst.For | cst.CompFor) -> Iterable[cst.CSTNode]:
    for bounds in ("1:", ":-1"):
        yield node.with_changes(iter=_part_of(node.iter, bounds))


def _plain_with(node: cst.With) -> Iterable[cst.CSTNode]:
    """Give the body without its `with`: what was entered is never left."""
    lines = []
    for item in node.items:
        entered = cst.Call(cst.Attribute(_parenthesised(item.item), cst.Name("__enter__")))
        targets = [cst.AssignTarget(item.asname.name)] if item.asname else []
        lines.append(cst.SimpleStatementLine([cst.Assign(targets, entered) if targets else cst.Expr(entered)]))
    yield cst.If(cst.Name("True"), cst.IndentedBlock([*lines, *node.body.body]))


def _mutmut() -> list[Operator]:
    chosen: tuple[tuple[type[cst.CSTNode], str, Make], ...] = (
        (cst.BaseNumber, "number", mutmut.operator_number),
        (cst.SimpleString, "string", _first(mutmut.operator_string)),
        (cst.Name, "name", mutmut.operator_name),
        (cst.AugAssign, "augmented_assignment", mutmut.operator_augmented_assignment),
        (cst.UnaryOperation, "remove_unary_ops", mutmut.operator_remove_unary_ops),
        (cst.Call, "dict_arguments", mutmut.operator_dict_arguments),
        (cst.Call, "arg_removal", _fewer_arguments),
        (cst.Call, "string_methods", mutmut.operator_symmetric_string_methods_swap),
        (cst.Lambda, "lambda", mutmut.operator_lambda),
        (cst.CSTNode, "keywords", mutmut.operator_keywords),
        (cst.CSTNode, "swap_op", mutmut.operator_swap_op),
        (cst.IfExp, "if_exp", mutmut.operator_if_exp),
    )
    return [Operator(name, (kind,), make) for kind, name, make in chosen]


GENERAL: list[Operator] = [
    # Not used of mutmut: `x = None` for an assignment, since dropping the statement is the same fault.
    *_mutmut(),
    Operator("drop_statement", (cst.SimpleStatementLine,), _drop_line),
    Operator("drop_block", (cst.If, cst.For, cst.While, cst.Try, cst.With), _drop_block),
    Operator("drop_release", (cst.SimpleStatementLine,), _drop_release),
    Operator("swallow_error", (cst.SimpleStatementLine,), _swallow_error),
    Operator("missing_return", (cst.Return,), _missing_return),
    Operator("swap_arguments", (cst.Call,), _swap_arguments),
    Operator("swap_elements", (cst.Tuple, cst.List), _swap_elements),
    Operator("drop_element", (cst.Tuple, cst.List, cst.Dict), _drop_element),
    Operator("negate_condition", (cst.If, cst.While, cst.IfExp, cst.CompIf), _negate),
    Operator("one_less", (cst.Integer, cst.Float), _one_less),
    Operator("one_side", (cst.BinaryOperation, cst.BooleanOperation), _one_side),
    Operator("integer_division", (cst.BinaryOperation,), _integer_division),
    Operator("unordered", (cst.Call,), _without(_ORDERS)),
    Operator("missing_copy", (cst.Call,), _without(_COPIES)),
    Operator("missing_conversion", (cst.Call,), _without(_CONVERSIONS)),
    Operator("missing_link", (cst.Call,), _without(_STEPS_OF_A_CHAIN)),
    Operator("sibling_call", (cst.Call,), _sibling),
    Operator("whole_slice", (cst.Subscript,), _whole_slice),
    Operator("shorter_loop", (cst.For, cst.CompFor), _shorter_loop),
    Operator("plain_with", (cst.With,), _plain_with),
]
