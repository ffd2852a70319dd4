"""Makes rewrites of the TODO cells: programs that do the same in another way, and must keep every claim."""

import ast
import copy
import functools
from collections.abc import Iterator
from typing import Any

from helpers.course.steps import GRADED
from tests.mutants import renames, reshaping
from tests.mutants.source import normal, todo_cells
from tests.submissions.bank import Entry, notebook_cells

_RENAMES = (renames.renamed, renames.renamed_to_the_notebooks, renames.renamed_attributes)
_RESHAPINGS = tuple(getattr(reshaping, name) for name in reshaping.__all__ if not name.endswith("_scalars"))
_SCALARS = (reshaping.with_numpy_scalars, reshaping.with_torch_scalars)
_NUMBERS_ARE_RETURNED = {"evaluate_accuracy_todo", "latency_function", "throughput_function", "key_figures"}
"""The TODO cells whose first function returns numbers that only the notebook's cells and the checks look at."""


@functools.cache
def all_rewrites(step: str | None = None) -> tuple[Entry, ...]:
    """Return every rewrite of a step's TODO cells, or of all steps', in order."""
    steps = [step] if step else GRADED
    return tuple(one for name in steps for cell in todo_cells(name) for one in rewrites_of(name, cell))


def rewrites_of(step: str, cell: str) -> list[Entry]:
    """Return the rewrites of one TODO cell as entries; those that change nothing in this cell are left out."""
    source, seen, found = todo_cells(step)[cell], set(), []
    for name, tree in _variants(step, cell, ast.parse(source)):
        code = ast.unparse(ast.fix_missing_locations(tree))
        if normal(code) not in seen:
            seen.add(normal(code))
            found.append(Entry(step, f"{step}/{cell}/{name}", "rewrite", cell=cell, code=code))
    return found


def _variants(step: str, cell: str, tree: ast.Module) -> Iterator[tuple[str, ast.Module]]:
    yield "comments_dropped", tree
    others = [ast.parse(other.source) for other in notebook_cells(step) if cell != _name(other)]
    for rename in _RENAMES:
        for number, renamed in enumerate(rename(tree, others)):
            yield f"{rename.__name__}-{number}", renamed
    known = _imports(step)
    for reshape in (*_RESHAPINGS, *(_SCALARS if cell in _NUMBERS_ARE_RETURNED else ())):
        changed = copy.deepcopy(tree)
        reshape(changed, known)
        yield reshape.__name__, changed


def _name(cell: Any) -> str | None:
    return cell.metadata.get("nbgrader", {}).get("grade_id")


@functools.cache
def _imports(step: str) -> dict[str, Any]:
    """Return what the step's notebook imports, by name."""
    namespace: dict[str, Any] = {}
    for cell in notebook_cells(step):
        lines = [line for line in ast.parse(cell.source).body if isinstance(line, (ast.Import, ast.ImportFrom))]
        hidden = [line for line in lines if not getattr(line, "module", "").startswith("solutions")]
        exec(compile(ast.Module(hidden, []), step, "exec"), namespace)
    return namespace
