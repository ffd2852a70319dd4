"""Copies of a process: with their own files and environment, and their end is seen."""

import json
import subprocess
import sys

from solutions.grading.layout import ROOT

# pytest's own process has threads: what is copied is a Python that has none.
_COPIES = """
import json, os, signal, sys, tempfile
from solutions.grading.forking import Copy, module_run

kept = open(os.devnull)
found = {}

def look():
    said = sys.stdin.readline()
    os.write(1, json.dumps([said, sorted(map(int, os.listdir("/dev/fd")))[:-1]]).encode() + b"\\n")
    sys.exit(3)

with tempfile.TemporaryFile("w+") as errors:
    copy = Copy(look, errors)
    copy.stdin.write("a line\\n")
    copy.stdin.flush()
    found["files"], found["code"] = json.loads(copy.stdout.readline()), copy.wait()
    copy.communicate()

    copy = Copy(sys.stdin.read, errors)
    copy.kill()
    copy.communicate()
    found["killed"] = copy.wait()

    copy = Copy(lambda: 1 / 0, errors)
    found["failed"] = copy.wait()
    errors.seek(0)
    found["said"] = errors.read().splitlines()[-1]

    copy = Copy(lambda: sys.exit("it cannot go on"), errors)
    found["exit"] = copy.wait()
    errors.seek(0)
    found["last"] = errors.read().splitlines()[-1]

    copy = Copy(module_run("json.tool", {"ONLY": "this"}), errors)
    copy.stdin.write("[1]")
    copy.stdin.close()
    found["module"], found["ended"] = json.loads(copy.stdout.read()), copy.wait()
print(json.dumps(found))
"""


def test_a_copy_has_its_own_files_and_its_end_is_seen() -> None:
    command = [sys.executable, "-c", _COPIES.replace("\\\\", "\\")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "files": ["a line\n", [0, 1, 2]],
        "code": 3,
        "killed": -9,
        "failed": 1,
        "said": "ZeroDivisionError: division by zero",
        "exit": 1,
        "last": "it cannot go on",
        "module": [1],
        "ended": 0,
    }
