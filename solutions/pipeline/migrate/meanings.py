"""What the names of a source stand for, as far as assignments, calls and loops tell without running it.

A meaning is text: `tensorrt` (the module), `type:Builder` (a class or an enum), `Builder` (an instance), `int`, `str`,
`each:ILayer` (something that holds or yields layers), `def:0`, `class:0` and `self:0` (a function, a class and an
instance of one that the source defines, by their order). The order of statements is not looked at: a name means all
that it is ever given in its scope.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import libcst as cst

from solutions.pipeline.migrate.api import ITERATED, MODULE, MODULES, known_names, returned

__all__ = ["Meanings"]

_PASSES = 8

Scope = cst.CSTNode
_SCOPES = (cst.Module, cst.FunctionDef, cst.ClassDef, cst.Lambda, cst.BaseComp)


class Meanings(cst.CSTVisitor):
    """The meanings of a module's names; visit it once with `of_module`."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[Scope, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._members: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._bases: dict[str, list[str]] = defaultdict(list)
        self._functions: list[cst.FunctionDef] = []
        self._classes: list[cst.ClassDef] = []
        self._results: dict[str, set[str]] = defaultdict(set)
        self._givers: list[tuple[Callable[[Any], None], cst.CSTNode]] = []
        self._scopes: list[Scope] = []
        self._globals: dict[Scope, set[str]] = defaultdict(set)
        self._scope_of: dict[cst.CSTNode, tuple[Scope, ...]] = {}
        self._aliases: list[str] = []
        self.identifiers: set[str] = set()
        """Every name in the source, bound or read."""

    @classmethod
    def of_module(cls, module: cst.Module) -> "Meanings":
        """Return the meanings of a module's names: what gives them is gone through until no more is learnt."""
        made = cls()
        module.visit(made)
        for _ in range(_PASSES):
            before = made._size()
            for give, node in made._givers:
                made._scopes = [*made._scope_of[node]]
                give(node)
            if made._size() == before:
                break
        return made

    def _size(self) -> int:
        tables = (*self._names.values(), *self._members.values(), self._results)
        return sum(len(given) for table in tables for given in table.values())

    # --- scopes

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Remember in which scopes a node stands, and whether it gives a name its meaning."""
        self._scope_of[node] = tuple(self._scopes)
        give = getattr(self, f"_give_{type(node).__name__}", None)
        if give is not None:
            self._givers.append((give, node))
        if isinstance(node, cst.Name):
            self.identifiers.add(node.value)
        elif isinstance(node, _SCOPES):
            self._scopes.append(node)
            if isinstance(node, cst.FunctionDef):
                self._functions.append(node)
            elif isinstance(node, cst.ClassDef):
                self._classes.append(node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        """Leave the scope that a node opened."""
        if isinstance(original_node, _SCOPES):
            self._scopes.pop()

    def scopes(self, node: cst.CSTNode) -> tuple[Scope, ...]:
        """Return the scopes around a node, the module first."""
        return self._scope_of[node]

    def _give_FunctionDef(self, node: cst.FunctionDef) -> None:
        scope = self._scopes[-1]
        inside = isinstance(scope, cst.ClassDef)
        table = self._members[self._class(scope)] if inside else self._names[scope]
        table[node.name.value].add(f"def:{self._functions.index(node)}")
        static = any("staticmethod" in _dotted(each.decorator) for each in node.decorators)
        self._parameters(node, f"self:{self._classes.index(scope)}" if inside and not static else "")

    def _give_Lambda(self, node: cst.Lambda) -> None:
        self._parameters(node, "")

    def _give_ClassDef(self, node: cst.ClassDef) -> None:
        name = self._class(node)
        self._names[self._scopes[-1]][node.name.value].add(name)
        self._bases[name] = [base for argument in node.bases for base in self.of(argument.value)]

    def _class(self, node: cst.CSTNode) -> str:
        return f"class:{self._classes.index(node)}"

    def _parameters(self, node: cst.FunctionDef | cst.Lambda, receiver: str) -> None:
        for index, parameter in enumerate(_positional(node)):
            given = self._names[node][parameter.name.value]
            if index == 0 and receiver:
                given.add(receiver)
            if parameter.annotation is not None:
                given |= _instances(self.of(parameter.annotation.annotation))
            if parameter.default is not None:
                given |= self.of(parameter.default)

    # --- what gives a name its meaning

    def _give_Import(self, node: cst.Import) -> None:
        for alias in node.names:
            if _dotted(alias.name) in MODULES:
                self._is_module(_bound(alias))

    def _give_ImportFrom(self, node: cst.ImportFrom) -> None:
        if isinstance(node.names, cst.ImportStar):
            return
        ours = node.module is not None and _dotted(node.module) in MODULES
        for alias in node.names:
            name = alias.name.value
            if ours and name in known_names():
                self._names[self._scopes[-1]][_bound(alias)].add(f"type:{name}")
            elif name in ("trt", MODULE):  # such as from helpers.backend import trt
                self._is_module(_bound(alias))

    def _is_module(self, name: str) -> None:
        self._names[self._scopes[-1]][name].add(MODULE)
        if name not in self._aliases:
            self._aliases.append(name)

    def _give_Global(self, node: cst.Global) -> None:
        self._globals[self._scopes[-1]] |= {item.name.value for item in node.names}

    def _give_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            self._assign(target.target, node.value)

    def _give_AnnAssign(self, node: cst.AnnAssign) -> None:
        given = _instances(self.of(node.annotation.annotation))
        self._bind(node.target, given | (self.of(node.value) if node.value is not None else set()))

    def _give_NamedExpr(self, node: cst.NamedExpr) -> None:
        self._assign(node.target, node.value)

    def _give_WithItem(self, node: cst.WithItem) -> None:
        if node.asname is not None:
            self._assign(node.asname.name, node.item)

    def _give_For(self, node: cst.For) -> None:
        self._iterate(node.target, node.iter)

    def _give_CompFor(self, node: cst.CompFor) -> None:
        self._iterate(node.target, node.iter)

    def _give_Return(self, node: cst.Return) -> None:
        function = next((scope for scope in reversed(self._scopes) if isinstance(scope, cst.FunctionDef)), None)
        if node.value is not None and function is not None:
            self._results[f"def:{self._functions.index(function)}"] |= self.of(node.value)

    def _give_Call(self, node: cst.Call) -> None:
        """Give the parameters of a function of this source what it is called with."""
        for meaning in self.of(node.func):
            kind, _, number = meaning.partition(":")
            if kind == "class":
                meaning = next(iter(self._member(meaning, "__init__")), "")
            if not meaning.startswith("def:"):
                continue
            function = self._functions[int(meaning[4:])]
            bound = isinstance(self._scope_of[function][-1], cst.ClassDef)
            self._arguments(node, function, 1 if bound and not _dotted(node.func).startswith(("cls.", "super")) else 0)

    def _arguments(self, node: cst.Call, function: cst.FunctionDef, skip: int) -> None:
        parameters = _positional(function)[skip:]
        by_name = {parameter.name.value: parameter for parameter in _positional(function)}
        for index, argument in enumerate(node.args):
            if argument.star:
                break
            parameter = by_name.get(argument.keyword.value) if argument.keyword else None
            if argument.keyword is None and index < len(parameters):
                parameter = parameters[index]
            if parameter is not None:
                self._names[function][parameter.name.value] |= self.of(argument.value)

    def _assign(self, target: cst.BaseExpression, value: cst.BaseExpression) -> None:
        if isinstance(target, (cst.Tuple, cst.List)) and isinstance(value, (cst.Tuple, cst.List)):
            for left, right in zip(target.elements, value.elements, strict=False):
                self._assign(left.value, right.value)
        elif not isinstance(target, (cst.Tuple, cst.List)):
            self._bind(target, self.of(value))

    def _bind(self, target: cst.BaseExpression, given: set[str]) -> None:
        if isinstance(target, cst.Name):
            scope = self._scopes[0] if target.value in self._globals[self._scopes[-1]] else self._scopes[-1]
            table = self._members[self._class(scope)] if isinstance(scope, cst.ClassDef) else self._names[scope]
            table[target.value] |= given
        elif isinstance(target, cst.Attribute):
            for meaning in self.of(target.value):
                if meaning.startswith("self:"):
                    self._members[f"class:{meaning[5:]}"][target.attr.value] |= given
        elif isinstance(target, cst.Subscript):  # names["a"] = engine
            self._bind(target.value, _holding(given))

    def _iterate(self, target: cst.BaseExpression, source: cst.BaseExpression) -> None:
        called = _dotted(source.func) if isinstance(source, cst.Call) else ""
        if isinstance(target, cst.Tuple):
            parts = [element.value for element in target.elements]
            if called == "enumerate" and len(parts) == 2 and source.args:
                self._bind(parts[0], {"int"})
                self._iterate(parts[1], source.args[0].value)
            elif called == "zip":
                for part, argument in zip(parts, source.args, strict=False):
                    self._iterate(part, argument.value)
            elif called.endswith(".items") and len(parts) == 2:
                self._bind(parts[1], set(_each(self.of(source.func.value))))
        else:
            self._bind(target, {"int"} if called == "range" else set(_each(self.of(source))))

    def module_at(self, node: cst.CSTNode) -> str | None:
        """Return a name of TensorRT's module that can be used where `node` stands."""
        for alias in (*self._aliases, "trt"):
            for scope in reversed(self._here(node)):
                if MODULE in self._names[scope].get(alias, ()):
                    return alias
        return None

    def defines(self, attribute: str) -> bool:
        """Tell whether a class of this source has such a member: then objects of unknown kind may be its instances."""
        return any(attribute in members for members in self._members.values())

    # --- what an expression means

    def of(self, node: cst.BaseExpression) -> set[str]:
        """Return the meanings of an expression; empty where nothing is known."""
        found = getattr(self, f"_of_{type(node).__name__}", None)
        return found(node) if found else set()

    def _of_Name(self, node: cst.Name) -> set[str]:
        inner = [scope for scope in self._here(node) if not isinstance(scope, cst.ClassDef)]
        for scope in reversed(inner):
            if node.value in self._names[scope]:
                return self._names[scope][node.value]
        return {MODULE} if node.value == "trt" else set()

    def _here(self, node: cst.CSTNode) -> tuple[Scope, ...]:
        return self._scope_of.get(node, tuple(self._scopes))

    def _of_Attribute(self, node: cst.Attribute) -> set[str]:
        found, name = set(), node.attr.value
        for meaning in self.of(node.value):
            if meaning == MODULE and name in known_names():
                found.add(f"type:{name}")
            elif meaning.startswith(("self:", "class:")):
                found |= self._member(f"class:{meaning.partition(':')[2]}", name)
            elif given := returned(meaning, name):
                found.add(given)
        return found

    def _member(self, owner: str, name: str) -> set[str]:
        found = set(self._members[owner].get(name, ()))
        for base in self._bases[owner]:
            if base.startswith("class:") and base != owner:
                found |= self._member(base, name)
        return found

    def _of_Call(self, node: cst.Call) -> set[str]:
        found = set()
        if isinstance(node.func, cst.Attribute):
            if node.func.attr.value in ("values", "copy"):
                found |= {meaning for meaning in self.of(node.func.value) if meaning.startswith("each:")}
            found |= {
                given for meaning in self.of(node.func.value) if (given := returned(meaning, node.func.attr.value))
            }
        if _dotted(node.func) in ("list", "tuple", "sorted", "set", "reversed") and node.args:
            found |= _holding(set(_each(self.of(node.args[0].value))))
        if _dotted(node.func) in ("len", "int"):
            found.add("int")
        if _dotted(node.func) == "str":
            found.add("str")
        for meaning in self.of(node.func):
            found |= self._called(meaning)
        return found

    def _called(self, meaning: str) -> set[str]:
        kind, _, rest = meaning.partition(":")
        if kind == "type":
            return {returned("", rest) or rest}
        if kind == "def":
            return self._results[meaning]
        if kind == "class":
            return {f"self:{rest}", *_instances(set(self._trt_bases(meaning)))}
        return set()

    def _trt_bases(self, owner: str) -> Iterator[str]:
        for base in self._bases[owner]:
            yield from self._trt_bases(base) if base.startswith("class:") and base != owner else [base]

    def _of_Subscript(self, node: cst.Subscript) -> set[str]:
        return set(_each(self.of(node.value)))

    def _of_Integer(self, node: cst.Integer) -> set[str]:
        return {"int"}

    def _of_SimpleString(self, node: cst.SimpleString) -> set[str]:
        return {"str"}

    _of_FormattedString = _of_ConcatenatedString = _of_SimpleString

    def _of_BinaryOperation(self, node: cst.BinaryOperation) -> set[str]:
        return (self.of(node.left) & self.of(node.right)) & {"int", "str"}

    def _of_IfExp(self, node: cst.IfExp) -> set[str]:
        return self.of(node.body) | self.of(node.orelse)

    def _of_NamedExpr(self, node: cst.NamedExpr) -> set[str]:
        return self.of(node.value)

    def _of_Await(self, node: cst.Await) -> set[str]:
        return self.of(node.expression)

    def _of_BooleanOperation(self, node: cst.BooleanOperation) -> set[str]:
        return self.of(node.left) | self.of(node.right)

    def _of_List(self, node: cst.List) -> set[str]:
        return _holding(set().union(*(self.of(element.value) for element in node.elements)))

    _of_Tuple = _of_Set = _of_Dict = _of_List

    def _of_ListComp(self, node: cst.ListComp) -> set[str]:
        return _holding(self.of(node.elt))

    _of_SetComp = _of_GeneratorExp = _of_ListComp

    def _of_DictComp(self, node: cst.DictComp) -> set[str]:
        return _holding(self.of(node.value))


def _holding(meanings: set[str]) -> set[str]:
    """Return what holds such values; nesting is followed to a depth of two."""
    return {f"each:{meaning}" for meaning in meanings if not meaning.startswith("each:each:")}


def _each(meanings: set[str]) -> Iterator[str]:
    for meaning in meanings:
        if meaning.startswith("each:"):
            yield meaning[5:]
        elif meaning in ITERATED:
            yield ITERATED[meaning]


def _instances(meanings: set[str]) -> set[str]:
    """Return what is meant by an annotation: `type:Builder` annotates a `Builder`."""
    made = {f"self:{meaning[6:]}" for meaning in meanings if meaning.startswith("class:")}
    return made | {meaning[5:] for meaning in meanings if meaning.startswith("type:")}


def _positional(node: cst.FunctionDef | cst.Lambda) -> list[cst.Param]:
    return [*node.params.posonly_params, *node.params.params, *node.params.kwonly_params]


def _bound(alias: cst.ImportAlias) -> str:
    """Return the name that an import binds."""
    return alias.asname.name.value if alias.asname else _dotted(alias.name).partition(".")[0]


def _dotted(node: cst.CSTNode) -> str:
    """Return `a.b.c` for such an expression, "" for others."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute) and (left := _dotted(node.value)):
        return f"{left}.{node.attr.value}"
    return ""
