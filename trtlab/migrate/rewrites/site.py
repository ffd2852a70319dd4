"""Where rewrites look around and put their edits, and the one pass that carries the edits out."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import libcst as cst
import libcst.matchers as m
from libcst.metadata import CodeRange

from trtlab.migrate.expressions import code
from trtlab.migrate.meanings import Meanings

_REMOVED = "__migrated_removed__"
_Line = cst.SimpleStatementLine
_Block = cst.IndentedBlock | cst.Module


def expression(text: str) -> cst.BaseExpression:
    """Return the expression that `text` is."""
    return cst.parse_expression(text)


def statements(text: str) -> list[cst.BaseStatement]:
    """Return the statements that `text` is."""
    return list(cst.parse_module(text).body)


def argument(call: cst.Call, index: int, *names: str) -> cst.BaseExpression | None:
    """Return the argument at `index` or by one of its names; None where it is not there, or stars make that unclear."""
    if any(each.star for each in call.args):
        return None
    for position, each in enumerate(call.args):
        if (each.keyword is None and position == index) or (each.keyword is not None and each.keyword.value in names):
            return each.value
    return None


class Edits(cst.CSTTransformer):
    """Edits by the node of the original tree; each gets the node as the edits inside it left it."""

    def __init__(self) -> None:
        super().__init__()
        self._expressions: dict[cst.CSTNode, Callable[[Any], cst.CSTNode]] = {}
        self._lines: dict[cst.CSTNode, Callable[[_Line], Sequence[cst.BaseStatement]]] = {}
        self._after: dict[cst.CSTNode, list[cst.BaseStatement]] = defaultdict(list)
        self._first: dict[cst.CSTNode, list[cst.BaseStatement]] = defaultdict(list)

    def __bool__(self) -> bool:
        return bool(self._expressions or self._lines)

    def replace(self, node: cst.CSTNode, made: Callable[[Any], cst.CSTNode]) -> bool:
        """Put `made(node)` in the place of an expression; False where another edit has it, or a comment would go."""
        if node in self._expressions or _comments(node) > _comments(made(node)):
            return False
        self._expressions[node] = made
        return True

    def replace_line(self, line: _Line, made: Callable[[_Line], Sequence[cst.BaseStatement]]) -> bool:
        """Put the statements `made(line)`, or none, in the place of a line; False as `replace` says."""
        if line in self._lines or _comments(line.body[0]) > sum(map(_comments, made(line))):
            return False
        self._lines[line] = made
        return True

    def insert_after(self, line: _Line, text: str) -> None:
        """Put statements behind a line."""
        self._after[line] += statements(text)

    def insert_first(self, block: cst.IndentedBlock, text: str) -> None:
        """Put statements at the beginning of a block."""
        self._first[block] += statements(text)

    def on_leave(self, original_node: cst.CSTNode, updated_node: Any) -> Any:
        """Carry out the edits of a node."""
        if original_node in self._expressions:
            updated_node = self._expressions[original_node](updated_node)
        if isinstance(original_node, _Line) and (original_node in self._lines or original_node in self._after):
            made = self._lines.get(original_node, lambda line: [line])(updated_node)
            made = _with_comments(updated_node, list(made) or [_placeholder()])
            return cst.FlattenSentinel([*made, *self._after[original_node]])
        if isinstance(original_node, _Block):
            first = self._first.get(original_node, [])
            return _without_placeholders(updated_node.with_changes(body=[*first, *updated_node.body]))
        return updated_node


def _comments(node: cst.CSTNode) -> int:
    """Return the number of comments in a node."""
    return len(m.findall(node, m.Comment()))


def _placeholder() -> _Line:
    return _Line([cst.Expr(cst.Name(_REMOVED))])


def _with_comments(old: _Line, made: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """Give the comments around a line to the statements that take its place."""
    if made == [old]:
        return made
    trailing = old.trailing_whitespace
    lines = list(old.leading_lines)
    if isinstance(made[-1], _Line):
        made[-1] = made[-1].with_changes(trailing_whitespace=trailing)
    elif trailing.comment is not None:
        lines.append(cst.EmptyLine(comment=trailing.comment))
    made[0] = made[0].with_changes(leading_lines=lines)
    return made


def _without_placeholders(block: Any) -> Any:
    """Take what stands for removed lines out of a block; their comments go to the next statement."""
    kept, pending = [], []
    for each in block.body:
        if isinstance(each, _Line) and each.body and code(each.body[0]) == _REMOVED:
            pending += each.leading_lines
            comment = each.trailing_whitespace.comment
            pending += [cst.EmptyLine(comment=comment)] if comment is not None else []
        else:
            if pending:
                each = each.with_changes(leading_lines=_joined(pending, each.leading_lines))
            kept.append(each)
            pending = []
    if not kept and isinstance(block, cst.IndentedBlock) and len(block.body):
        kept = statements("pass")
        kept[0] = kept[0].with_changes(leading_lines=[line for line in pending if line.comment])
        pending = []
    footer = [*[line for line in pending if line.comment], *block.footer]
    return block.with_changes(body=kept, footer=footer)


def _joined(removed: list[cst.EmptyLine], own: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    return [*[line for line in removed if line.comment or not own], *own]


class Site:
    """What rewrites know about the source."""

    def __init__(
        self,
        module: cst.Module,
        to: int,
        meanings: Meanings,
        positions: Mapping[cst.CSTNode, CodeRange],
        parents: Mapping[cst.CSTNode, cst.CSTNode],
    ) -> None:
        self.module, self.to, self.meanings, self.parents, self.edits = module, to, meanings, parents, Edits()
        self._positions = positions
        self.made: dict[tuple[cst.CSTNode, str], str] = {}
        """Configurations that rewrites made, by scope and builder."""

    def start(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return where a node begins, to compare."""
        position = self._positions[node].start
        return position.line, position.column

    def trt(self, node: cst.CSTNode) -> str | None:
        """Return the name that stands for TensorRT's module at a node."""
        return self.meanings.module_at(node)

    def called(self, node: cst.CSTNode) -> cst.Call | None:
        """Return the call whose function is `node`."""
        parent = self.parents.get(node)
        return parent if isinstance(parent, cst.Call) and parent.func is node else None

    def line(self, node: cst.CSTNode) -> _Line | None:
        """Return the line of the small statement around an expression, where it stands alone in a line of a block."""
        while node is not None and not isinstance(node, cst.BaseSmallStatement):
            node = self.parents.get(node)
        line = self.parents.get(node) if node is not None else None
        alone = isinstance(line, _Line) and len(line.body) == 1
        return line if alone and isinstance(self.parents.get(line), _Block) else None

    def assigned(self, node: cst.CSTNode) -> _Line | None:
        """Return the line `node = value`, where `node` is its only target."""
        line = self.line(node)
        small = line.body[0] if line is not None else None
        one = isinstance(small, cst.Assign) and len(small.targets) == 1 and small.targets[0].target is node
        return line if one else None

    def free_name(self, *candidates: str) -> str | None:
        """Return the first of the names that the source does not use."""
        return next((name for name in candidates if name not in self.meanings.identifiers), None)

    def is_plain(self, node: cst.CSTNode) -> bool:
        """Tell whether an expression may stand twice: a name, or attributes of one."""
        return isinstance(node, cst.Name) or (isinstance(node, cst.Attribute) and self.is_plain(node.value))
