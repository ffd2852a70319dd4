"""Makes the mutants of a TODO cell: each operator at each place, without duplicates, each with a stable id."""

import ast
import difflib
import functools
import hashlib
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, CodeSpan, MetadataWrapper

from helpers.course.steps import GRADED
from tests.mutants.field_operators import FIELD
from tests.mutants.operators import GENERAL, Operator
from tests.mutants.prose import BEGIN, mutable_nodes
from tests.submissions.bank import notebook_cells

OPERATORS: list[Operator] = [*FIELD, *GENERAL]
"""Where two operators make the same code, the mutant is the first one's, so those of the field come first."""


@dataclass(frozen=True)
class Mutant:
    """A faulty variant of one TODO cell.

    `removed` and `added` are the lines that differ, without indentation; `occurrence` counts what is otherwise equal.
    """

    step: str
    cell: str
    operator: str
    removed: str
    added: str
    occurrence: int
    code: str

    @property
    def id(self) -> str:
        """A name that stays the same while the lines that differ do."""
        parts = (self.step, self.cell, self.operator, self.removed, self.added, str(self.occurrence))
        return f"{self.step}/{self.cell}/{self.operator}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:8]}"

    def diff(self, context: int = 2) -> str:
        """Return the unified diff against the reference solution."""
        before = todo_cells(self.step)[self.cell].splitlines()
        lines = difflib.unified_diff(before, self.code.splitlines(), self.cell, self.operator, lineterm="", n=context)
        return "\n".join(lines)


def todo_cells(step: str) -> dict[str, str]:
    """Return the sources of the step's TODO cells by grade_id, in order."""
    cells = ((cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source) for cell in notebook_cells(step))
    return {name: source for name, source in cells if BEGIN in source}


@functools.cache
def all_mutants(step: str | None = None) -> tuple[Mutant, ...]:
    """Return every mutant of a step, or of all steps, in order."""
    steps = [step] if step else GRADED
    return tuple(
        mutant for one in steps for cell, source in todo_cells(one).items() for mutant in mutants_of(one, cell, source)
    )


def normal(code: str) -> str:
    """Return what a program does: its syntax tree, without layout, comments, the order of alternatives and guards.

    Raises:
        SyntaxError: it is no program.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # `1 is x` and its like: a mutant may be bad style
        compile(code, "mutant", "exec")
        return ast.dump(_Canonical().visit(ast.parse(code)))


class _Canonical(ast.NodeTransformer):
    """Puts alternatives in one order (`x in (1, 2)`, isinstance, except, max).

    zip's guard `strict` and a last `return None` are taken away.
    """

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        last = node.body[-1]
        if isinstance(last, ast.Return | ast.Expr) and last.value and ast.unparse(last.value) == "None":
            node.body[-1] = ast.Pass()
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        for test, among in zip(node.ops, node.comparators, strict=True):
            if isinstance(test, ast.In | ast.NotIn):
                _sort(among)
        return self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        _sort(node.type)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "isinstance":
            _sort(*node.args[1:])
        if name in ("max", "min"):
            node.args.sort(key=ast.dump)
        if name == "zip":
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != "strict"]
        return self.generic_visit(node)


def _sort(*found: ast.AST | None) -> None:
    for several in found:
        if isinstance(several, ast.Tuple | ast.List | ast.Set):
            several.elts.sort(key=ast.dump)


def mutants_of(step: str, cell: str, source: str, operators: list[Operator] = OPERATORS) -> list[Mutant]:
    """Return the mutants of a cell's source; those that are no program, or equal to another one, are left out."""
    seen, counts, found = {normal(source)}, Counter(), []
    for operator, code in _variants(source, operators):
        try:
            tree = normal(code)
        except (SyntaxError, ValueError):
            continue
        if tree in seen:
            continue
        seen.add(tree)
        removed, added = _changed_lines(source, code)
        occurrence = counts[operator, removed, added]
        counts[operator, removed, added] += 1
        found.append(Mutant(step, cell, operator, removed, added, occurrence, code))
    return found


def _variants(source: str, operators: list[Operator]) -> list[tuple[str, str]]:
    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    nodes = mutable_nodes(wrapper)
    spans = wrapper.resolve(ByteSpanPositionProvider)
    return [
        (operator.name, _replaced(source, wrapper.module, spans, node, replacement))
        for operator in operators
        for node in nodes
        if isinstance(node, operator.kinds)
        for replacement in operator.make(node)
    ]


def _replaced(
    source: str,
    module: cst.Module,
    spans: Mapping[cst.CSTNode, CodeSpan],
    node: cst.CSTNode,
    other: cst.CSTNode,
) -> str:
    if isinstance(other, (cst.IndentedBlock, cst.BaseCompoundStatement)):
        return module.deep_replace(node, other).code  # several lines, whose indentation the whole tree knows
    # The same by text: a visit of the whole tree takes a hundred times as long.
    before, span = source.encode(), spans[node]
    new = module.code_for_node(other).strip() if isinstance(other, cst.BaseStatement) else module.code_for_node(other)
    return (before[: span.start] + new.encode() + before[span.start + span.length :]).decode()


def _changed_lines(before: str, after: str) -> tuple[str, str]:
    old, new = ([line.strip() for line in text.splitlines() if line.strip()] for text in (before, after))
    lines = [line for line in difflib.ndiff(old, new) if not line[2:].startswith("#")]
    return tuple("\n".join(line[2:] for line in lines if line.startswith(mark)) for mark in ("- ", "+ "))
