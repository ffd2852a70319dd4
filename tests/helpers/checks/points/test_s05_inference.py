"""Step 5's engines: what two of them have in common does not depend on what a process built before."""

import os
import subprocess
import sys

_IN_A_NEW_PROCESS = """
from helpers.checks.points.case import Case
from helpers.checks.points.s05_inference.engines import alike

first, second = alike(Case(None, 7))
print(len(first.plan) - len(second.plan), first.plan == second.plan, len(first.onnx) - len(second.onnx))
"""


def test_two_engines_have_plans_of_one_size_in_a_new_process_too() -> None:
    command, cpu = [sys.executable, "-c", _IN_A_NEW_PROCESS], {**os.environ, "TRT_LAB_ENGINE": "cpu"}
    done = subprocess.run(command, env=cpu, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["0", "False", "0"], done.stderr[-500:]
