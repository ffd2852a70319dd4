"""Rewrites of how a program is put together: arguments, loops, sequences, scalars, files, functions, documentation."""

import ast
import inspect
from collections.abc import Callable
from typing import Any

__all__ = [
    "as_lists",
    "as_loops",
    "as_tuples",
    "by_keyword",
    "by_position",
    "decorated",
    "documented",
    "in_a_class",
    "in_a_helper",
    "one_line_loops",
    "undocumented",
    "with_numpy_scalars",
    "with_open",
    "with_torch_scalars",
]

_READ = "def _read(path):\n    with open(path, 'rb') as file:\n        return file.read()"
_WRITE = (
    "def _write(path, data):\n    with open(path, 'wb') as file:\n"
    "        return file.write(data.encode() if isinstance(data, str) else data)"
)
_SCALARS = """
def _scalar(value):
    if isinstance(value, dict):
        return {key: _scalar(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_scalar(part) for part in value)
    return {float: MAKE_FLOAT, int: MAKE_INT}.get(type(value), lambda same: same)(value)
"""
_DECORATOR = """
def _passed_on(function):
    @__import__("functools").wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs)
    return call
"""


def _parsed(code: str) -> list[ast.stmt]:
    return ast.parse(code).body


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _split(body: list[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Return the docstring, if there is one, and the rest."""
    return (body[:1], body[1:]) if body and _is_docstring(body[0]) else ([], body)


def _parameters(function: ast.FunctionDef) -> list[str]:
    return [arg.arg for arg in function.args.posonlyargs + function.args.args]


# Arguments


def by_keyword(tree: ast.Module, known: dict[str, Any]) -> None:
    """Name positional arguments of functions whose signature is known."""
    for call, parameters in _known_calls(tree, known):
        keywords = []
        while call.args and len(parameters) >= len(call.args) and not isinstance(call.args[-1], ast.Starred):
            parameter = parameters[len(call.args) - 1]
            if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
                break
            keywords.insert(0, ast.keyword(parameter.name, call.args.pop()))
        call.keywords = keywords + call.keywords


def by_position(tree: ast.Module, known: dict[str, Any]) -> None:
    """Drop the names of arguments that come next by position, of functions whose signature is known."""
    for call, parameters in _known_calls(tree, known):
        given = {keyword.arg: keyword for keyword in call.keywords}
        for parameter in parameters[len(call.args) :]:
            if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD or parameter.name not in given:
                break
            call.args.append(given[parameter.name].value)
            call.keywords.remove(given[parameter.name])


def _known_calls(tree: ast.Module, known: dict[str, Any]) -> list[tuple[ast.Call, list[inspect.Parameter]]]:
    found = []
    own = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if any(isinstance(arg, ast.Starred) for arg in call.args):
            continue
        if isinstance(call.func, ast.Name) and call.func.id in own:
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            found.append((call, [inspect.Parameter(name, kind) for name in _parameters(own[call.func.id])]))
            continue
        try:
            found.append((call, list(inspect.signature(_resolved(call.func, known)).parameters.values())))
        except (KeyError, AttributeError, TypeError, ValueError):
            continue  # a method of an object, or a function of C that does not tell its parameters
    return found


def _resolved(node: ast.expr, known: dict[str, Any]) -> Any:
    if isinstance(node, ast.Attribute):
        return getattr(_resolved(node.value, known), node.attr)
    return known[node.id] if isinstance(node, ast.Name) else known[""]


# Loops


def as_loops(tree: ast.Module, known: dict[str, Any]) -> None:
    """Put a loop for every comprehension that is evaluated whenever its statement is."""
    _each_block(
        tree, lambda line: [*_Hoist(line).loops, line] if isinstance(line, (ast.Assign, ast.Return)) else [line]
    )


def one_line_loops(tree: ast.Module, known: dict[str, Any]) -> None:
    """Put a comprehension for every loop that only makes one call."""

    def short(line: ast.stmt) -> list[ast.stmt]:
        if (
            not isinstance(line, ast.For)
            or line.orelse
            or len(line.body) != 1
            or not isinstance(line.body[0], ast.Expr)
        ):
            return [line]
        generator = ast.comprehension(line.target, line.iter, [], 0)
        return [ast.Expr(ast.ListComp(line.body[0].value, [generator]))]

    _each_block(tree, short)


def _each_block(tree: ast.AST, change: Callable[[ast.stmt], list[ast.stmt]]) -> None:
    for node in list(ast.walk(tree)):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                setattr(node, name, [new for line in block for new in change(line)])


class _Hoist(ast.NodeTransformer):
    """Takes comprehensions out of a statement: `loops` are the statements that must go before it."""

    def __init__(self, line: ast.stmt) -> None:
        self.loops: list[ast.stmt] = []
        self.visit(line)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        lazy = isinstance(node.func, ast.Name) and node.func.id in ("next", "any", "all")
        return node if lazy else self.generic_visit(node)

    def _keep(self, node: ast.AST) -> ast.AST:
        return node  # what is in there may not be evaluated, or more than once

    visit_Lambda = visit_IfExp = visit_BoolOp = _keep

    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> ast.AST:
        return self._hoisted(node, ast.List([], ast.Load()), "{kept}.append({element})", ast.unparse(node.elt))

    visit_GeneratorExp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        key, value = ast.unparse(node.key), ast.unparse(node.value)
        return self._hoisted(node, ast.Dict([], []), f"{{kept}}[{key}] = {{element}}", value)

    def _hoisted(self, node: Any, empty: ast.expr, form: str, element: str) -> ast.AST:
        if len(node.generators) > 1:
            return node
        kept, part = f"kept_{len(self.loops)}_{node.lineno}_{node.col_offset}", node.generators[0]
        inner = _parsed(form.replace("{kept}", kept).replace("{element}", element))
        for test in part.ifs:
            inner = [ast.If(test, inner, [])]
        loop: ast.stmt = ast.For(part.target, part.iter, inner, [])
        bound = {name.id for name in ast.walk(part.target) if isinstance(name, ast.Name)}
        for name in ast.walk(loop):  # a comprehension's name is its own; a loop's is the function's
            if isinstance(name, ast.Name) and name.id in bound:
                name.id = f"each_{name.id}_{node.col_offset}"
        self.loops += [ast.Assign([ast.Name(kept, ast.Store())], empty), loop]
        return ast.Name(kept, ast.Load())


# Sequences


def as_lists(tree: ast.Module, known: dict[str, Any]) -> None:
    """Put a list for every tuple that need not be one."""
    _Sequences(ast.Tuple, ast.List).visit(tree)


def as_tuples(tree: ast.Module, known: dict[str, Any]) -> None:
    """Put a tuple for every list that nothing is added to."""
    grown = {
        node.func.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
    }
    _Sequences(ast.List, ast.Tuple, grown).visit(tree)


class _Sequences(ast.NodeTransformer):
    def __init__(self, old: type, new: type, grown: set[str] | None = None) -> None:
        self.old, self.new, self.grown = old, new, grown or set()

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        return node if self._named(node.targets[0]) else self.generic_visit(node)

    def _named(self, target: ast.expr) -> bool:
        return isinstance(target, ast.Name) and target.id in self.grown

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = ast.unparse(node.func)
        if name == "isinstance" or name.endswith("with"):
            return node
        if name == "torch.onnx.export":  # its arguments of the model are a tuple by contract
            node.keywords = [self.visit(keyword) for keyword in node.keywords]
            return node
        return self.generic_visit(node)

    def _keep(self, node: ast.AST) -> ast.AST:
        return node  # an index, a key, or arithmetic: there the type matters

    visit_Subscript = visit_DictComp = visit_BinOp = visit_Compare = visit_ExceptHandler = _keep

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        return self._changed(node)

    def visit_List(self, node: ast.List) -> ast.AST:
        return self._changed(node)

    def _changed(self, node: ast.Tuple | ast.List) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node, self.old) and isinstance(node.ctx, ast.Load) and node.elts:
            return self.new(node.elts, node.ctx)
        return node


# Scalars and files


def with_numpy_scalars(tree: ast.Module, known: dict[str, Any]) -> None:
    """Return NumPy's scalars for Python's."""
    _with_scalars(tree, '__import__("numpy").float64', '__import__("numpy").int64')


def with_torch_scalars(tree: ast.Module, known: dict[str, Any]) -> None:
    """Return tensors without axes for Python's scalars."""
    make = '(lambda value: __import__("torch").tensor(value, dtype=__import__("torch").float64))'
    _with_scalars(tree, make, '__import__("torch").tensor')


def _with_scalars(tree: ast.Module, make_float: str, make_int: str) -> None:
    function = next((node for node in tree.body if isinstance(node, ast.FunctionDef)), None)
    returns = [node for node in ast.walk(function or tree) if isinstance(node, ast.Return) and node.value]
    for node in returns:
        node.value = ast.Call(ast.Name("_scalar", ast.Load()), [node.value], [])
    if returns:
        tree.body[:0] = _parsed(_SCALARS.replace("MAKE_FLOAT", make_float).replace("MAKE_INT", make_int))


def with_open(tree: ast.Module, known: dict[str, Any]) -> None:
    """Read and write with `open` and join paths with os.path, in place of pathlib's methods."""
    before = ast.unparse(tree)
    _Files().visit(tree)
    if ast.unparse(tree) != before:
        tree.body[:0] = _parsed(_READ) + _parsed(_WRITE)


class _Files(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in ("read_bytes", "read_text"):
            read = ast.Call(ast.Name("_read", ast.Load()), [self._text(node.func.value)], [])
            return read if name == "read_bytes" else ast.Call(ast.Attribute(read, "decode", ast.Load()), [], [])
        if name in ("write_bytes", "write_text"):
            return ast.Call(ast.Name("_write", ast.Load()), [self._text(node.func.value), node.args[0]], [])
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr == "st_size" and isinstance(node.value, ast.Call):
            return ast.parse(f"__import__('os').path.getsize({ast.unparse(node.value.func.value)})", mode="eval").body
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        text = isinstance(node.right, ast.JoinedStr) or isinstance(getattr(node.right, "value", None), str)
        if isinstance(node.op, ast.Div) and (text or getattr(node.right, "id", "") == "file"):
            joined = f"__import__('os').path.join({ast.unparse(node.left)}, {ast.unparse(node.right)})"
            return ast.parse(joined, mode="eval").body
        return node

    def _text(self, path: ast.expr) -> ast.expr:
        plain = isinstance(path, ast.Call) and isinstance(path.func, ast.Name) and path.func.id == "Path"
        return ast.Call(ast.Name("str", ast.Load()), path.args, []) if plain else path


# Functions, classes, documentation


def in_a_helper(tree: ast.Module, known: dict[str, Any]) -> None:
    """Move the body of every function and method into a function inside it."""
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        docstring, body = _split(function.body)
        names = _parameters(function)
        if body and not function.args.vararg and not function.args.kwarg and not function.args.kwonlyargs:
            helper = _parsed(f"def work({', '.join(names)}): pass\nreturn_ = work({', '.join(names)})")
            helper[0].body = body
            function.body = [*docstring, helper[0], ast.Return(helper[1].value)]


def in_a_class(tree: ast.Module, known: dict[str, Any]) -> None:
    """Move every function into a class, and every class into a base class of its own."""
    body: list[ast.stmt] = []
    for node in tree.body:
        body += _classed(node) if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else [node]
    tree.body = body


def _classed(node: ast.FunctionDef | ast.ClassDef) -> list[ast.stmt]:
    docstring, _ = _split(node.body)
    if isinstance(node, ast.ClassDef):
        child = ast.ClassDef(node.name, [ast.Name(f"Base{node.name}", ast.Load())], [], docstring or [ast.Pass()], [])
        node.name = f"Base{node.name}"
        return [node, child]
    names = _parameters(node)
    front, work = _parsed(f"def {node.name}(): pass\nclass Work_{node.name}:\n    pass")
    front.args, front.body = node.args, [*docstring, *_parsed(f"Work_{node.name}().work({', '.join(names)})")]
    front.body[-1] = ast.Return(front.body[-1].value)
    method = ast.parse(ast.unparse(node)).body[0]
    method.name, method.args.args, method.args.defaults = "work", [ast.arg("self"), *method.args.args], []
    work.body = [method]
    return [work, front]


def decorated(tree: ast.Module, known: dict[str, Any]) -> None:
    """Put a decorator that passes everything on before every function and method."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        function.decorator_list.append(ast.Name("_passed_on", ast.Load()))
    if functions:
        tree.body[:0] = _parsed(_DECORATOR)


def documented(tree: ast.Module, known: dict[str, Any]) -> None:
    """Give every function and class a docstring and every function type hints."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            node.body = [*_parsed("'''What I have written.'''"), *_split(node.body)[1]]
        if isinstance(node, ast.FunctionDef):
            node.returns = ast.Constant("object")
            for arg in node.args.args:
                arg.annotation = ast.Name("object", ast.Load())


def undocumented(tree: ast.Module, known: dict[str, Any]) -> None:
    """Drop every docstring."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            node.body = _split(node.body)[1] or [ast.Pass()]
