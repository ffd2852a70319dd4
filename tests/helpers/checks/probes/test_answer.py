"""The probes, as a process finds them that was started to answer."""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]

FIND = """
import sys
from helpers.checks.probes.answer import known_probe
for probe in sys.argv[1:]:
    module, name = probe.split(":")
    assert known_probe(name, module).__module__ == module
"""


def test_a_new_process_finds_every_probe() -> None:
    probes = [
        f"{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}:{node.name}"
        for path in sorted(ROOT.glob("helpers/**/*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(mark, ast.Name) and mark.id == "probe" for mark in node.decorator_list)
    ]
    done = subprocess.run([sys.executable, "-c", FIND, *probes], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (len(probes) > 40, done.stderr) == (True, "")
