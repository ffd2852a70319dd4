"""The configuration that takes a builder's options: the one that is there, or one made where the builder is."""

import libcst as cst
import libcst.matchers as m

from trtlab.migrate.expressions import code
from trtlab.migrate.rewrites.site import Site


def configuration_of(builder: cst.BaseExpression, node: cst.CSTNode, site: Site) -> str | None:
    """Return the name of the configuration of `builder` at `node`; None where none can be had.

    One is made behind the builder's own line, or first in the block of its `with`, where the source makes none.
    """
    if not isinstance(builder, cst.Name):
        return None
    scope = site.meanings.scopes(node)[-1]
    made = _made_by(f"{builder.value}.create_builder_config", scope, site)
    if made:
        name, where = made[0]
        return name if len(made) == 1 and site.start(where) < site.start(node) else None
    return site.made.get((scope, builder.value)) or _make(builder.value, scope, node, site)


def _make(builder: str, scope: cst.CSTNode, node: cst.CSTNode, site: Site) -> str | None:
    sources = [
        where
        for name, where in _bound(scope, site)
        if name == builder
        and "Builder" in site.meanings.of(where.item if isinstance(where, cst.WithItem) else where.value)
    ]
    name = site.free_name("config", "builder_config")
    if len(sources) != 1 or name is None or site.start(sources[0]) > site.start(node):
        return None
    text = f"{name} = {builder}.create_builder_config()"
    if isinstance(sources[0], cst.WithItem):
        block = site.parents[sources[0]].body
        if not isinstance(block, cst.IndentedBlock):
            return None
        site.edits.insert_first(block, text)
    else:
        line = site.line(sources[0])
        if line is None:
            return None
        site.edits.insert_after(line, text)
    site.made[scope, builder] = name
    return name


def _made_by(function: str, scope: cst.CSTNode, site: Site) -> list[tuple[str, cst.CSTNode]]:
    """Return names in `scope` that hold what calling `function` gave, and where they get it."""
    found = []
    for name, where in _bound(scope, site):
        value = where.item if isinstance(where, cst.WithItem) else where.value
        if isinstance(value, cst.Call) and code(value.func) == function:
            found.append((name, where))
    return found


def _bound(scope: cst.CSTNode, site: Site) -> list[tuple[str, cst.Assign | cst.WithItem]]:
    """Return the simple names that statements of `scope` itself bind, and these statements."""
    found = []
    for node in m.findall(scope, m.Assign(targets=[m.AssignTarget(m.Name())]) | m.WithItem(asname=m.AsName(m.Name()))):
        if site.meanings.scopes(node)[-1] is scope:
            target = node.asname.name if isinstance(node, cst.WithItem) else node.targets[0].target
            found.append((target.value, node))
    return found
