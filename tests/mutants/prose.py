"""What is not mutated in a solution: what is given, prose, names that are free, and how a chart or a page looks."""

import re

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from tests.mutants.operators import LOOKS, called_name

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"

_STYLING = {
    "annotate", "axhline", "bar_label", "code_for_node", "grid", "legend", "margins", "set_axisbelow",
    "set_major_formatter", "set_visible", "set_xlim", "set_ylim",
}  # fmt: skip
"""Calls that style a chart: what they draw stays right without them."""

_HUSHING = {"catch_warnings", "filterwarnings", "simplefilter"}
"""Calls that keep a library's warnings out of sight; what runs between them is mutated."""


def solution_lines(source: str) -> set[int]:
    """Return the numbers (from 1) of the lines between the solution marks: what a student writes."""
    inside, found = False, set()
    for number, line in enumerate(source.splitlines(), start=1):
        if line.strip() == BEGIN:
            inside = True
        elif line.strip() == END:
            inside = False
        elif inside:
            found.add(number)
    return found


def mutable_nodes(wrapper: MetadataWrapper) -> list[cst.CSTNode]:
    """Return the nodes that stand wholly in a student's lines and are neither prose nor names nor looks, in order.

    A block need only end there: a function's begins with its docstring, which is given.
    """
    positions = wrapper.resolve(PositionProvider)
    collector = _Mutable(positions, solution_lines(wrapper.module.code))
    wrapper.module.visit(collector)
    return collector.found


class _Mutable(cst.CSTVisitor):
    def __init__(self, positions: dict, lines: set[int]) -> None:
        self.positions, self.lines, self.found = positions, lines, []
        self.free: set[cst.CSTNode | None] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        if node in self.free or _looks_or_prose(node):
            return False
        self.free.add(_axis_name(node))
        place = self.positions.get(node)
        if place is not None and place.end.line in self.lines and not _hushes(node):
            if place.start.line in self.lines or isinstance(node, cst.IndentedBlock):
                self.found.append(node)
        return True


def _looks_or_prose(node: cst.CSTNode) -> bool:
    if isinstance(node, (cst.FormattedStringText, cst.Annotation, cst.ConcatenatedString)):
        return True
    if isinstance(node, cst.FormattedStringExpression):
        return False
    if isinstance(node, cst.SimpleString):
        return bool(re.search(r"[\s<{%#]", str(node.evaluated_value))) or node.value.startswith('"""')
    if isinstance(node, cst.Arg):
        return node.keyword is not None and node.keyword.value in LOOKS
    if isinstance(node, cst.SimpleStatementLine):
        small = node.body[0]
        hidden = _STYLING | _HUSHING
        return isinstance(small, cst.Expr) and (called_name(small.value) in hidden or _is_docstring(small))
    # Why something failed is prose; that it failed is not (the statement itself was looked at already).
    return isinstance(node, cst.Call) and called_name(node).endswith("Error")


def _is_docstring(small: cst.Expr) -> bool:
    return isinstance(small.value, cst.SimpleString)


def _axis_name(node: cst.CSTNode) -> cst.CSTNode | None:
    """Return the text that is given to a number, as PyTorch's exporter takes a name for a symbolic axis: it is free."""
    if isinstance(node, cst.DictElement) and isinstance(node.key, cst.Integer):
        return node.value if isinstance(node.value, cst.SimpleString) else None
    return None


def _hushes(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.With) and all(called_name(item.item) in _HUSHING for item in node.items)
