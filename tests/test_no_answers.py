"""Guard tests: neither helpers/ nor the given cells of a notebook hold what a TODO asks for."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

from helpers.course.steps import NOTEBOOKS

ROOT = Path(__file__).resolve().parents[1]
ANSWERS = {
    "configures a builder": re.compile(r"\.create_builder_config\(\)|\.set_flag\("),
    "is a calibrator": re.compile(r"class \w+\([\w.]*IInt8\w+\)"),
    "computes percentiles": re.compile(r"\b(nan)?(percentile|quantiles?)\("),
    "computes a speed-up": re.compile(r"[\"']speed_?up[\"']\s*(\]\s*=|:)[^\n]*\w\)?\s*/\s*\w"),
}
ALLOWED = {
    "helpers/engine/given.py": "configures a builder",
    "helpers/checks/points/s09_mixed_precision/layers.py": "configures a builder",
    "15_llm": "configures a builder",
}
"""An FP32 engine for the checks of steps 5, 6 and 10, step 16's engines by their records, a calibration for step 4's
check; advice in words; a new configuration for step 9's students to set.

Chapter 15 has no task and builds for itself; it shows no more than probe_engine and the second hints of steps 2 and 3.
"""

HELPERS = sorted((ROOT / "helpers").rglob("*.py"))


def answers(source: str) -> list[str]:
    """Return what of ANSWERS a source does; docstrings and comments do not count."""
    text = _code(source)
    return [what for what, pattern in ANSWERS.items() if pattern.search(text)]


def _code(source: str) -> str:
    """Return a source without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = ""
    return ast.unparse(tree)


@pytest.mark.parametrize("path", HELPERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_helpers_hold_no_answer(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    assert [what for what in answers(path.read_text()) if ALLOWED.get(name) != what] == []


@pytest.mark.parametrize("step", NOTEBOOKS)
def test_given_cells_hold_no_answer(step: str) -> None:
    for cell in nbformat.read(ROOT / "solutions" / step / f"{step}.ipynb", as_version=4).cells:
        if cell.cell_type == "code" and not cell.metadata.get("nbgrader", {}).get("solution"):
            found = [what for what in answers(cell.source) if ALLOWED.get(step) != what]
            assert found == [], cell.source.splitlines()[0]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("config = builder.create_builder_config()", ["configures a builder"]),
        ("class Mine(trt.IInt8MinMaxCalibrator):\n    pass", ["is a calibrator"]),
        ("p99 = np.percentile(times, 99)", ["computes percentiles"]),
        ("cuts = statistics.quantiles(times, n=100)", ["computes percentiles"]),
        ("report['speedup'] = ours / theirs", ["computes a speed-up"]),
        ('"""Return np.percentile(times, 99)."""', []),
        ("create = trt.Builder.create_builder_config  # not called", []),
    ],
)
def test_an_answer_is_found_in_code_and_not_in_words(source: str, found: list[str]) -> None:
    assert answers(source) == found
