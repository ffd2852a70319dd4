"""The probes, as a process finds them that was started to answer."""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_a_new_process_finds_every_probe() -> None:
    names = [
        node.name
        for path in sorted(ROOT.glob("helpers/**/*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(mark, ast.Name) and mark.id == "probe" for mark in node.decorator_list)
    ]
    code = "import sys\nfrom helpers.probes.answer import known_probe\nfor one in sys.argv[1:]: assert known_probe(one)"
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (len(names) > 50, done.stderr) == (True, "")
