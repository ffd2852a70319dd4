"""Rewrites that only rename: local names and a class's own attributes, also to names that the notebook's cells use."""

import ast
import builtins
import copy
import keyword
from collections.abc import Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef
_TURNS = 3


def renamed(tree: ast.Module, notebook: list[ast.Module]) -> Iterator[ast.Module]:
    """Give the program with an underscore behind every local name."""
    plans = [(function, {name: f"{name}_" for name in _locals(function)}) for function in _outermost(tree)]
    yield from _applied(tree, plans)


def renamed_to_the_notebooks(tree: ast.Module, notebook: list[ast.Module]) -> Iterator[ast.Module]:
    """Give programs whose local names are names that other cells use.

    Those that are left over after the last of a few are bound at the start of every function, so that each is a local
    name somewhere.
    """
    spares = [_spare_names(function, notebook) for function in _outermost(tree)]
    plans = [(function, _locals(function), spare) for function, spare in zip(_outermost(tree), spares, strict=True)]
    for turn in range(_TURNS):
        renames = []
        for function, names, spare in plans:
            start = turn * len(names)
            renames.append((function, dict(zip(names, spare[start : start + len(names)], strict=False))))
        yield from _applied(tree, renames)
    changed = copy.deepcopy(tree)
    for function, spare in zip(_outermost(changed), spares, strict=True):
        given = ast.get_docstring(function) is not None
        function.body[given:given] = ast.parse(" = ".join([*spare, "None"])).body
    yield changed


def renamed_attributes(tree: ast.Module, notebook: list[ast.Module]) -> Iterator[ast.Module]:
    """Give the program with other names for attributes of `self` that no other object, cell or docstring has."""
    own = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value)
    }
    methods = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    known = {node.attr for cell in notebook for node in ast.walk(cell) if isinstance(node, ast.Attribute)} | methods
    known |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and not _is_self(node.value)}
    others = {name: f"my_{name}" for name in sorted(own - known)}
    if others:
        yield _Attributes(others).visit(copy.deepcopy(tree))


def _applied(tree: ast.Module, plans: list[tuple[Function, dict[str, str]]]) -> Iterator[ast.Module]:
    if not any(names for _, names in plans):
        return
    by_line = {function.lineno: names for function, names in plans}
    changed = copy.deepcopy(tree)
    for function in _outermost(changed):
        _Names(by_line[function.lineno]).visit(function)
    yield changed


def _outermost(tree: ast.AST) -> list[Function]:
    """Return the functions and methods that are in no other function."""
    found: list[Function] = []
    for node in ast.iter_child_nodes(tree):
        found += [node] if isinstance(node, Function) else _outermost(node)
    return found


def _locals(function: Function) -> list[str]:
    """Return the names that are bound in a function's body, nested scopes included; parameters are not among them."""
    parameters = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    bound = [node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    shared = {
        name for node in ast.walk(function) if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names
    }
    return [name for name in dict.fromkeys(bound) if name not in parameters | shared]


def _spare_names(function: Function, notebook: list[ast.Module]) -> list[str]:
    """Return the global names that other cells use and that mean nothing in the function."""
    taken = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    taken |= {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)} | set(dir(builtins))
    found = (node.id for cell in notebook for node in ast.walk(cell) if isinstance(node, ast.Name))
    imported = (
        (alias.asname or alias.name).partition(".")[0]
        for cell in notebook
        for node in ast.walk(cell)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    )
    return sorted({name for name in (*found, *imported) if name not in taken and not keyword.iskeyword(name)})


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


class _Names(ast.NodeTransformer):
    def __init__(self, others: dict[str, str]) -> None:
        self.others = others

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.others.get(node.id, node.id), node.ctx)


class _Attributes(ast.NodeTransformer):
    def __init__(self, others: dict[str, str]) -> None:
        self.others = others

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if _is_self(node.value):
            node.attr = self.others.get(node.attr, node.attr)
        return node
