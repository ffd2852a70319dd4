"""What an expression means, given what names and members mean; meanings.py says what a meaning is."""

from collections import defaultdict
from collections.abc import Iterator

import libcst as cst

from trtlab.migrate.api import ITERATED, MODULE, known_names, returned

Scope = cst.CSTNode


class Expressions(cst.CSTVisitor):
    """The meanings of a source's expressions, by those of its names in their scopes and of its classes' members."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[Scope, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._members: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._bases: dict[str, list[str]] = defaultdict(list)
        self._results: dict[str, set[str]] = defaultdict(set)
        self._scopes: list[Scope] = []
        self._scope_of: dict[cst.CSTNode, tuple[Scope, ...]] = {}

    def of(self, node: cst.BaseExpression) -> set[str]:
        """Return the meanings of an expression; empty where nothing is known."""
        found = getattr(self, f"_of_{type(node).__name__}", None)
        return found(node) if found else set()

    def _of_Name(self, node: cst.Name) -> set[str]:
        scope = self._scope_with(node)
        if scope is not None:
            return self._names[scope][node.value]
        return {MODULE} if node.value == "trt" else set()

    def _scope_with(self, node: cst.Name) -> Scope | None:
        """Return the scope that binds a name where it stands; what a class binds is not seen in its methods."""
        for scope in reversed(self._here(node)):
            if not isinstance(scope, cst.ClassDef) and node.value in self._names[scope]:
                return scope
        return None

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
        return set().union(*(self._members[each].get(name, ()) for each in self._lineage(owner)))

    def _lineage(self, owner: str) -> list[str]:
        """Return a class and all that it derives from, `type:…` where these are TensorRT's."""
        found = [owner]
        for each in found:  # grows
            found += [base for base in self._bases.get(each, ()) if base not in found]
        return found

    def _of_Call(self, node: cst.Call) -> set[str]:
        found = set()
        if isinstance(node.func, cst.Attribute):
            if node.func.attr.value in ("values", "copy"):
                found |= {meaning for meaning in self.of(node.func.value) if meaning.startswith("each:")}
            found |= {
                given for meaning in self.of(node.func.value) if (given := returned(meaning, node.func.attr.value))
            }
        if dotted(node.func) in ("list", "tuple", "sorted", "set", "reversed") and node.args:
            found |= holding(set(each_of(self.of(node.args[0].value))))
        if dotted(node.func) in ("len", "int"):
            found.add("int")
        if dotted(node.func) == "str":
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
            return {f"self:{rest}", *instances({base for base in self._lineage(meaning) if base.startswith("type:")})}
        return set()

    def _of_Subscript(self, node: cst.Subscript) -> set[str]:
        return set(each_of(self.of(node.value)))

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
        return holding(set().union(*(self.of(element.value) for element in node.elements)))

    _of_Tuple = _of_Set = _of_Dict = _of_List

    def _of_ListComp(self, node: cst.ListComp) -> set[str]:
        return holding(self.of(node.elt))

    _of_SetComp = _of_GeneratorExp = _of_ListComp

    def _of_DictComp(self, node: cst.DictComp) -> set[str]:
        return holding(self.of(node.value))


def code(node: cst.CSTNode) -> str:
    """Return the source of a node."""
    return cst.Module([]).code_for_node(node)


def holding(meanings: set[str]) -> set[str]:
    """Return what holds such values; nesting is followed to a depth of two."""
    return {f"each:{meaning}" for meaning in meanings if not meaning.startswith("each:each:")}


def each_of(meanings: set[str]) -> Iterator[str]:
    for meaning in meanings:
        if meaning.startswith("each:"):
            yield meaning[5:]
        elif meaning in ITERATED:
            yield ITERATED[meaning]


def instances(meanings: set[str]) -> set[str]:
    """Return what is meant by an annotation: `type:Builder` annotates a `Builder`."""
    made = {f"self:{meaning[6:]}" for meaning in meanings if meaning.startswith("class:")}
    return made | {meaning[5:] for meaning in meanings if meaning.startswith("type:")}


def dotted(node: cst.CSTNode) -> str:
    """Return `a.b.c` for such an expression, "" for others."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute) and (left := dotted(node.value)):
        return f"{left}.{node.attr.value}"
    return ""
