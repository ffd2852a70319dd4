"""Guard tests: who may import whom, read from the source. Imports in functions and for annotations count as well.

To watch another package, add its rooms to `FLOORS`.
"""

import ast
import graphlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.course.steps import GRADED, NOTEBOOKS

ROOT = Path(__file__).resolve().parents[1]

PACKAGES = ("trtcpu", "helpers", "trtlab", "solutions", "website")
"""From the ground up: each imports only from packages that stand before it."""

# The rooms (files and folders) of a package from the ground up: each imports only from rooms that stand before it.
STEPS = tuple(f"s{step}" for step in GRADED)
HIDDEN = tuple(name for name in STEPS if any((ROOT / "solutions/checks").glob(f"{name}*")))
"""Those with hidden points: the others have no file in solutions/checks."""

CORE = ("__init__", "options", "versions", "stats", "ran_in", "models", "engines", "images", "building")
CORE += ("timing", "quality", "profiling")
"""What the course needs of trtlab: one build path, inference, measurements. Commands, report and recipes lie above."""

FLOORS = {
    "helpers": ("__init__", "tools", "engine", "course", "data", "toys", "checks"),
    "helpers.tools": ("__init__", "cells", "files", "signals", "outputs", "term"),
    "helpers.engine": (
        *("__init__", "timings", "memory", "gpu_packages", "cuda_python", "backend", "cuda_graphs", "layers"),
        *("fused_layers", "layer_groups", "arithmetic", "peaks", "given"),
    ),
    "helpers.course": ("settings", "steps", "artifacts", "labels", "plots", "elsewhere", "handout", "__init__"),
    "helpers.data": (
        *("__init__", "storage", "downloads", "digits", "image_folders", "rendered_digits", "imagenet"),
        *("imagenet_folders", "cifar10", "checkpoint", "models", "datasets"),
    ),
    "helpers.checks": ("__init__", "missed", "card", "probes", "points", "feedback"),
    "trtcpu": (
        *("__init__", "errors", "processor", "bounded_json", "calibration_cache", "api_changes"),
        "api",
        "_repairs",
        "_openvino",
        "_export",
        "plan_header",
        "plan",
        "device",
        "cuda",
        "cudart",
        "runtime",
        "calibration",
        "builder",
        "tensorrt",
        "stand_ins",
        "__main__",
    ),
    "helpers.engine.cuda_python": ("driver", "device", "streams", "memory", "__init__"),
    "helpers.checks.probes": (
        *("__init__", "frames", "codec", "schema", "channel", "loads", "capture", "images", "image_folders"),
        *("listings", "onnx_files", "answer", "timed_calls", "cuda_calls", "builds", "student", "serve"),
    ),
    "helpers.checks.points": (
        *("__init__", "case", "files", "task", "pure", "timed", "builders", "builder", *STEPS, "rooms"),
    ),
    "solutions": ("__init__", "sandbox", "checks", "grading"),
    "trtlab": (*CORE, "trtexec", "report", "running", "doctor", "migrate", "commands", "cli", "__main__"),
    "solutions.checks": ("core", "trusted", *HIDDEN, "__init__"),
    "solutions.checks.trusted": (
        *("__init__", "solution_cells", "stages", "stillness", "speed", "plans"),
        *("engine_speed", "reference_results", "reference", "builder", "workspace"),
    ),
}

Graph = dict[str, set[str]]


def import_graph(root: Path, package: str) -> Graph:
    """Return, by module of `package` (dotted, below the folder `root`), the modules of it that it imports."""
    folder = root.joinpath(*package.split("."))
    files = {module_name(path.relative_to(root)): path for path in folder.rglob("*.py")}
    return {name: set(imported_by(name, path, files.keys())) - {name} for name, path in files.items()}


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_by(name: str, path: Path, modules: set[str]) -> Iterator[str]:
    """Yield which of `modules` the file of module `name` imports, wherever in it the import stands."""
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        for found in named_by(node, package):
            if found in modules:
                yield found
            elif found.rpartition(".")[0] in modules:  # a name that the module before the last dot defines
                yield found.rpartition(".")[0]


def named_by(node: ast.AST, package: str) -> list[str]:
    """Return what an import, or a call of import_module with a literal, in a module of `package` names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
        source = ".".join([*above, *([node.module] if node.module else [])])
        return [f"{source}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
        return [a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return []


def circle(graph: Graph) -> list[str]:
    """Return the modules of one circle of imports, first and last the same; empty if there is none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def room(package: str, module: str) -> str:
    return module.removeprefix(package).removeprefix(".").split(".")[0] or "__init__"


def upward(graph: Graph, package: str, floors: tuple[str, ...]) -> list[str]:
    """Return the imports from a room into one that stands after it in `floors`."""
    return [
        f"{module} imports {target}"
        for module, targets in sorted(graph.items())
        for target in sorted(targets)
        if floors.index(room(package, module)) < floors.index(room(package, target))
    ]


@pytest.mark.parametrize("package", FLOORS)
def test_every_room_has_a_floor(package: str) -> None:
    assert {room(package, module) for module in import_graph(ROOT, package)} == set(FLOORS[package])


@pytest.mark.parametrize("package", FLOORS)
def test_a_room_imports_only_from_rooms_below_it(package: str) -> None:
    assert upward(import_graph(ROOT, package), package, FLOORS[package]) == []


def test_a_package_imports_only_from_packages_below_it() -> None:
    files = {module_name(path.relative_to(ROOT)): path for top in PACKAGES for path in (ROOT / top).rglob("*.py")}
    found = [
        f"{name} imports {target}"
        for name, path in sorted(files.items())
        for target in imported_by(name, path, files.keys())
        if PACKAGES.index(name.split(".")[0]) < PACKAGES.index(target.split(".")[0])
    ]
    assert found == []


def test_the_course_imports_only_the_core_of_trtlab() -> None:
    files = {module_name(path.relative_to(ROOT)): path for top in PACKAGES for path in (ROOT / top).rglob("*.py")}
    course = {name: path for name, path in files.items() if name.split(".")[0] in ("helpers", "solutions")}
    found = {target for name, path in course.items() for target in imported_by(name, path, files.keys())}
    assert {room("trtlab", target) for target in found if target.startswith("trtlab.")} <= {*CORE}


@pytest.mark.parametrize("step", NOTEBOOKS)
def test_a_notebook_imports_nothing_of_the_checks(step: str) -> None:
    notebook = json.loads((ROOT / "labs" / step / f"{step}.ipynb").read_text())
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert any("from helpers import " in cell for cell in code)
    assert not [cell for cell in code if re.search(r"helpers\.checks|(import|from) (solutions|trtlab)\b", cell)]


@pytest.mark.parametrize("package", FLOORS)
def test_no_files_import_each_other_in_a_circle(package: str) -> None:
    assert circle(import_graph(ROOT, package)) == []


@pytest.mark.parametrize(
    "back",
    [
        "import house.roof.top",
        "from house.roof import top",
        "from house.roof.top import Name",
        "from ..roof import top",
        "from ..roof.top import Name",
        "def late():\n    from house.roof import top",
        "if TYPE_CHECKING:\n    from house.roof.top import Name",
        "importlib.import_module('house.roof.top')",
    ],
)
def test_an_import_back_is_found_however_it_is_written(tmp_path: Path, back: str) -> None:
    files = {"__init__": "", "ground/__init__": "", "ground/floor": back, "roof/__init__": ""}
    for name, text in {**files, "roof/top": "from house.ground.floor import Stone"}.items():
        path = tmp_path / "house" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    graph = import_graph(tmp_path, "house")
    assert sorted(set(circle(graph))) == ["house.ground.floor", "house.roof.top"]
    assert upward(graph, "house", ("ground", "roof", "__init__")) == ["house.ground.floor imports house.roof.top"]
    del graph["house.ground.floor"]
    assert circle(graph) == [] and upward(graph, "house", ("ground", "roof", "__init__")) == []
