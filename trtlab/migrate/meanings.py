"""What the names of a source stand for, as far as assignments, calls and loops tell without running it.

A meaning is text: `tensorrt` (the module), `type:Builder` (a class or an enum), `Builder` (an instance), `int`, `str`,
`each:ILayer` (something that holds or yields layers), `def:0`, `class:0` and `self:0` (a function, a class and an
instance of one that the source defines, by their order). The order of statements is not looked at: a name means all
that it is ever given in its scope.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import libcst as cst

from trtlab.migrate.api import MODULE, MODULES, known_names
from trtlab.migrate.expressions import Expressions, Scope, dotted, each_of, holding, instances

_PASSES = 8

_SCOPES = (cst.Module, cst.FunctionDef, cst.ClassDef, cst.Lambda, cst.BaseComp)


class Meanings(Expressions):
    """The meanings of a module's names; visit it once with `of_module`."""

    def __init__(self) -> None:
        super().__init__()
        self._functions: list[cst.FunctionDef] = []
        self._classes: list[cst.ClassDef] = []
        self._givers: list[tuple[Callable[[Any], None], cst.CSTNode]] = []
        self._globals: dict[Scope, set[str]] = defaultdict(set)
        self._aliases: list[str] = []
        self._learnt = False
        self._unclear: set[tuple[Scope | str, str]] = set()
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
        made._learnt = True
        for give, node in made._givers:
            made._scopes = [*made._scope_of[node]]
            give(node)
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
        static = any("staticmethod" in dotted(each.decorator) for each in node.decorators)
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
                given |= instances(self.of(parameter.annotation.annotation))
            if parameter.default is not None:
                given |= self.of(parameter.default)

    # --- what gives a name its meaning

    def _give_Import(self, node: cst.Import) -> None:
        for alias in node.names:
            if dotted(alias.name) in MODULES:
                self._is_module(_bound(alias))
            else:
                self._bind(cst.Name(_bound(alias)), set())

    def _give_ImportFrom(self, node: cst.ImportFrom) -> None:
        if isinstance(node.names, cst.ImportStar):
            return
        ours = node.module is not None and dotted(node.module) in MODULES
        for alias in node.names:
            name = alias.name.value
            if ours and name in known_names():
                self._names[self._scopes[-1]][_bound(alias)].add(f"type:{name}")
            elif name in ("trt", MODULE):  # such as from helpers.engine.backend import trt
                self._is_module(_bound(alias))
            else:
                self._bind(cst.Name(_bound(alias)), set())

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
        given = instances(self.of(node.annotation.annotation))
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
            self._arguments(node, function, 1 if bound and not dotted(node.func).startswith(("cls.", "super")) else 0)

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
                given = self._given(argument.value)
                annotated = parameter.annotation is not None  # which says what it is, whoever calls
                self._learn(function, parameter.name.value, self._names, given or None if annotated else given)

    def _assign(self, target: cst.BaseExpression, value: cst.BaseExpression) -> None:
        if not isinstance(target, (cst.Tuple, cst.List)):
            return self._bind(target, self._given(value))
        parts = [element.value for element in target.elements]
        if isinstance(value, (cst.Tuple, cst.List)) and len(value.elements) == len(parts):
            for part, element in zip(parts, value.elements, strict=True):
                self._assign(part, element.value)
        else:
            for part in parts:
                self._bind(part, set())

    def _given(self, value: cst.BaseExpression) -> set[str] | None:
        """Return the meanings of a value; None for None, which says nothing of what a name is for."""
        return None if isinstance(value, cst.Name) and value.value == "None" else self.of(value)

    def _bind(self, target: cst.BaseExpression, given: set[str] | None) -> None:
        if isinstance(target, cst.Name):
            scope = self._scopes[0] if target.value in self._globals[self._scopes[-1]] else self._scopes[-1]
            if isinstance(scope, cst.ClassDef):
                self._learn(self._class(scope), target.value, self._members, given)
            else:
                self._learn(scope, target.value, self._names, given)
        elif isinstance(target, cst.Attribute):
            for meaning in list(self.of(target.value)):
                if meaning.startswith("self:"):
                    self._learn(f"class:{meaning[5:]}", target.attr.value, self._members, given)
        elif isinstance(target, cst.Subscript) and given:  # names["a"] = engine
            self._bind(target.value, holding(given))

    def _learn(self, owner: Scope | str, name: str, table: dict[Any, Any], given: set[str] | None) -> None:
        table[owner][name] |= given or set()
        if self._learnt and given is not None and not given:
            self._unclear.add((owner, name))

    def _iterate(self, target: cst.BaseExpression, source: cst.BaseExpression) -> None:
        called = dotted(source.func) if isinstance(source, cst.Call) else ""
        if isinstance(target, cst.Tuple):
            parts = [element.value for element in target.elements]
            if called == "enumerate" and len(parts) == 2 and source.args:
                self._bind(parts[0], {"int"})
                self._iterate(parts[1], source.args[0].value)
            elif called == "zip":
                for part, argument in zip(parts, source.args, strict=False):
                    self._iterate(part, argument.value)
            elif called.endswith(".items") and len(parts) == 2:
                self._bind(parts[1], set(each_of(self.of(source.func.value))))
        else:
            self._bind(target, {"int"} if called == "range" else set(each_of(self.of(source))))

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

    def is_clear(self, node: cst.BaseExpression) -> bool:
        """Tell whether everything that an expression is ever given is known: then its meanings are all it can mean."""
        if isinstance(node, cst.Name):
            scope = self._scope_with(node)
            return scope is None or (scope, node.value) not in self._unclear
        if isinstance(node, cst.Attribute):
            owners = [f"class:{meaning[5:]}" for meaning in self.of(node.value) if meaning.startswith("self:")]
            return not any((owner, node.attr.value) in self._unclear for owner in owners)
        return True


def _positional(node: cst.FunctionDef | cst.Lambda) -> list[cst.Param]:
    return [*node.params.posonly_params, *node.params.params, *node.params.kwonly_params]


def _bound(alias: cst.ImportAlias) -> str:
    """Return the name that an import binds."""
    return alias.asname.name.value if alias.asname else dotted(alias.name).partition(".")[0]
