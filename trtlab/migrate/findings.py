"""What in a source is gone: each use of a name, or of a way to use one, that the TensorRT aimed at no longer has."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import CodeRange

from trtcpu.api_changes import Change, load_changes
from trtlab.migrate.api import MODULE, known_names, member_names, owner_of
from trtlab.migrate.expressions import code
from trtlab.migrate.meanings import Meanings
from trtlab.migrate.uses import ADVICE, COMMON, HINTED, USES

CUSTOMARY = {
    "builder": "Builder",
    "config": "IBuilderConfig",
    "network": "INetworkDefinition",
    "engine": "ICudaEngine",
    "context": "IExecutionContext",
    "registry": "IPluginRegistry",
    "layer": "ILayer",
    "tensor": "ITensor",
}
"""What variables are usually called, in code and in the replacements, and the class of what they hold."""
_NAMED = re.compile(r"\b(trt|" + "|".join(CUSTOMARY) + r")\.(\w+(?:\.\w+)?)")
_OUTPUT_TYPE = {"add_quantize": "input, scale", "add_dequantize": "input, scale", "add_fill": "shape, op"}
_ASKED = re.compile(r"\b(?:hasattr|getattr)\([^,]+,\s*['\"](\w+)['\"]")


@dataclass(frozen=True)
class Finding:
    """One use of what is gone. `gone_in` is "" for advice; `likely`: what it belongs to is not known for sure."""

    node: cst.CSTNode
    position: CodeRange
    name: str
    gone_in: str
    replacement: str
    reason: str
    likely: bool = False
    guarded: bool = False
    """It stands behind a test of what this TensorRT has, or where its absence is caught."""


def changes_until(version: int) -> dict[str, Change]:
    """Return what is gone in TensorRT `version`, each with a replacement that is there."""
    known = {**load_changes(), **USES}
    known = {name: change for name, change in known.items() if float(change.gone_in) <= version}
    return {name: _lasting(change, known) for name, change in known.items()}


def _lasting(change: Change, known: Mapping[str, Change]) -> Change:
    """Return the change with the replacement of its replacement, where that is gone as well."""
    for variable, path in _NAMED.findall(change.replacement):
        name = path if variable == "trt" else f"{CUSTOMARY[variable]}.{path.partition('.')[0]}"
        later = known.get(name)
        if later is not None and later.name != change.name:
            return change._replace(replacement=later.replacement, reason=f"{change.reason}; {later.reason}")
    return change


class Finder(cst.CSTVisitor):
    """Collects the findings of a module in the order of its text."""

    def __init__(
        self,
        meanings: Meanings,
        positions: Mapping[cst.CSTNode, CodeRange],
        parents: Mapping[cst.CSTNode, cst.CSTNode],
        known: Mapping[str, Change],
    ) -> None:
        super().__init__()
        self._meanings, self._positions, self._parents, self._known = meanings, positions, parents, known
        self._likely: dict[str, list[str]] = {}
        for name in known:
            owner, dot, member = name.rpartition(".")
            if dot and re.fullmatch(r"\w+", member) and member.islower() and member not in COMMON:
                self._likely.setdefault(member, []).append(name)
        self.findings: list[Finding] = []

    def _found(self, node: cst.CSTNode, name: str, likely: bool = False) -> None:
        change = self._known.get(name)
        if change is None:
            return
        guarded = any(map(self._is_guard, self._ancestors(node)))
        position = self._positions[node.attr if isinstance(node, cst.Attribute) else node]
        self.findings.append(
            Finding(node, position, name, change.gone_in, change.replacement, change.reason, likely, guarded)
        )

    def _ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        while (node := self._parents.get(node)) is not None:
            yield node

    def _is_guard(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.If, cst.IfExp)):
            test = code(node.test)
            return "__version__" in test or any(name in member_names() for name in _ASKED.findall(test))
        if isinstance(node, cst.Try):
            caught = [code(each.type) for each in node.handlers if each.type is not None]
            return any("AttributeError" in each for each in caught)
        return False

    def visit_Import(self, node: cst.Import) -> None:
        for alias in node.names:
            self._advise(alias, code(alias.name))

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        if isinstance(node.names, cst.ImportStar) or node.module is None:
            return
        module = code(node.module)
        for alias in node.names:
            self._advise(alias, f"{module}.{alias.name.value}")
            if module.partition(".")[0] == MODULE:
                self._found(alias, alias.name.value)

    def _advise(self, node: cst.CSTNode, name: str) -> None:
        if name in ADVICE:
            replacement, reason = ADVICE[name]
            self.findings.append(Finding(node, self._positions[node], name, "", replacement, reason))

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self._read(node, node.value, node.attr.value)

    def _read(self, node: cst.CSTNode, owner: cst.BaseExpression, attribute: str) -> None:
        """Look at `attribute` of the expression `owner`, read at `node`."""
        meanings = sorted(self._meanings.of(owner))
        for meaning in meanings:
            if (name := owner_of(meaning, attribute, self._known)) is not None:
                return self._found(node, name, likely=not self._meanings.is_clear(owner))
        if not meanings and attribute in self._likely and not self._meanings.defines(attribute):
            if (name := self._guess(code(owner), attribute)) is not None:
                self._found(node, name, likely=True)

    def _guess(self, owner: str, attribute: str) -> str | None:
        """Return which of the members called so is meant, told by what the variable is called."""
        candidates = self._likely[attribute]
        if attribute in HINTED and not self._meanings.identifiers & {MODULE, "trt"}:
            return None
        for word, kind in CUSTOMARY.items():
            if word in owner.rpartition(".")[2].lower() and f"{kind}.{attribute}" in candidates:
                return f"{kind}.{attribute}"
        return None if attribute in HINTED else candidates[0]

    def visit_Call(self, node: cst.Call) -> None:
        called = node.func.value if isinstance(node.func, cst.Name) else ""
        arguments = [argument.value for argument in node.args]
        if called == "len" and len(arguments) == 1:
            self._used(node, arguments[0], "ICudaEngine", "len(ICudaEngine)")
        elif _names_attribute(called, arguments):
            self._read(node, arguments[0], str(arguments[1].evaluated_value))
        elif isinstance(node.func, cst.Attribute):
            self._called(node, node.func.value, node.func.attr.value)

    def _called(self, node: cst.Call, owner: cst.BaseExpression, method: str) -> None:
        if method == "destroy":
            for kind in self._meanings.of(owner) & known_names():
                if not kind.startswith("IPlugin"):
                    return self._used(node, owner, kind, "destroy()")
        if method == "create_network" and any(_is_number(each.value) for each in node.args):
            self._used(node, owner, "Builder", "Builder.create_network(number)")
        if method in _OUTPUT_TYPE and len(node.args) < 3:
            use = f"INetworkDefinition.{method}({_OUTPUT_TYPE[method]})"
            self._used(node, owner, "INetworkDefinition", use)

    def visit_Subscript(self, node: cst.Subscript) -> None:
        index = node.slice[0].slice
        if isinstance(index, cst.Index) and self._meanings.of(index.value) == {"str"}:
            self._used(node, node.value, "ICudaEngine", "ICudaEngine[name]")

    def _used(self, node: cst.CSTNode, owner: cst.BaseExpression, kind: str, use: str) -> None:
        """Add a use that is gone, if `owner` is of this kind."""
        if kind in self._meanings.of(owner):
            self._found(node, use, likely=not self._meanings.is_clear(owner))

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        if isinstance(node.target, cst.Attribute):
            owner = node.target.value
            for meaning in self._meanings.of(owner):
                self._used(node.target, owner, meaning, f"{meaning}.{node.target.attr.value} = …")


def _names_attribute(called: str, arguments: list[cst.BaseExpression]) -> bool:
    """Tell whether a call fails where the attribute that it names is not there; getattr with a default does not."""
    number = {"getattr": 2, "setattr": 3}.get(called)
    return number == len(arguments) and isinstance(arguments[1], cst.SimpleString)


def _is_number(node: cst.BaseExpression) -> bool:
    """Tell whether an expression is a number, or made of numbers alone, and not 0."""
    if isinstance(node, cst.BinaryOperation):
        return _is_number(node.left) and isinstance(node.right, cst.Integer)
    return isinstance(node, cst.Integer) and node.evaluated_value != 0
