"""A notebook's functions as a new kernel would have them: what variables have learned since is gone, files stay."""

import ast
import contextlib
import inspect
import symtable
from collections.abc import Iterator, Sequence
from numbers import Number
from typing import Any

from helpers.tools.cells import as_python, cells_of

_IMPORTS = (ast.Import, ast.ImportFrom)
_FILE = "<cell of a new session>"


def in_new_session(functions: dict[str, Any]) -> dict[str, Any]:
    """Return functions and classes of a notebook, by name, defined anew from its cells, with all that they refer to.

    Only statements that define a name which they use, directly or not, are run again, in order; imports are not. What
    no cell defines is returned as it is. A process has its own hashes of texts and bytes, so `hash` gives others.
    """
    origin = _globals(functions)
    statements = [statement for cell in cells_of(origin) for statement in _statements(cell)]
    needed, set_by_functions = _needed(statements, set(functions)), _declared_global(statements)
    fresh = {"hash": _hash_anew} | {name: value for name, value in origin.items() if name not in set_by_functions}
    for statement in statements:
        if _changes(statement) & needed:
            code = compile(ast.Module([statement], []), _FILE, "exec")
            with contextlib.suppress(Exception):  # as it may have done when the cell was run
                exec(code, fresh)
    return {name: fresh.get(name, found) for name, found in functions.items()}


def _hash_anew(value: Any) -> int:
    return hash(value) if isinstance(value, Number) else hash((_FILE, value))


def _globals(functions: dict[str, Any]) -> dict[str, Any]:
    members = [m for f in functions.values() for m in (vars(f).values() if inspect.isclass(f) else [f])]
    return next((member.__globals__ for member in members if inspect.isfunction(member)), {})


def _statements(cell: str) -> list[ast.stmt]:
    try:
        body = ast.parse(as_python(cell)).body
    except SyntaxError:
        return []
    return [statement for statement in body if not isinstance(statement, _IMPORTS)]


def _needed(statements: Sequence[ast.stmt], names: set[str]) -> set[str]:
    """Return `names` and all names, of those that statements define, which their definitions use."""
    needed: set[str] = set()
    while names - needed:
        needed |= names
        for statement in statements:
            if _changes(statement) & needed:
                names |= _used(statement)
    return needed


def _declared_global(statements: Sequence[ast.stmt]) -> set[str]:
    """Return the names that functions declare `global`: their values are of this session."""
    nodes = (node for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Global))
    return {name for node in nodes for name in node.names}


def _changes(statement: ast.stmt) -> set[str]:
    """Return the names that a statement defines, or whose object it changes: `x = 1`, `x[1] = 2`, `x.add(3)`."""
    if isinstance(statement, ast.Expr):
        call = statement.value
        return _roots(call.func) if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else set()
    table = symtable.symtable(ast.unparse(statement), _FILE, "exec")
    bound = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned()}
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return bound.union(*(_roots(target) for target in targets if isinstance(target, (ast.Attribute, ast.Subscript))))


def _roots(node: ast.AST) -> set[str]:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _used(statement: ast.stmt) -> set[str]:
    """Return the global names that a statement uses, in the functions that it defines too; not their local ones."""
    return set(_globals_of(symtable.symtable(ast.unparse(statement), _FILE, "exec")))


def _globals_of(table: symtable.SymbolTable) -> Iterator[str]:
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if top or symbol.is_global():
            yield symbol.get_name()
    for child in table.get_children():
        yield from _globals_of(child)
