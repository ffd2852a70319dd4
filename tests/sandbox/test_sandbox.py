"""The sandbox that this machine has: what a stranger's process sees, and which limit ends it.

`trtlab doctor --sandbox` and `make hostile` try the escapes; here is what a sandbox is told, and a few real runs.
"""

import os
import sys
from pathlib import Path

import pytest

from helpers.errors import LabError
from solutions.sandbox import KINDS, VARIABLE, Limits, Room, choice, chosen, command, run, trouble
from solutions.sandbox.room import ROOT, environment_of, visible

WORKS = [kind for kind in KINDS if not trouble(kind)]
MIB = 1 << 20


@pytest.fixture(params=WORKS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def test_the_environment_is_an_allow_list_with_a_fresh_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("TRT_LAB_SEED", "7")
    monkeypatch.setenv("TRT_LAB_ENGINE", "cpu")
    inside = environment_of(Room(tmp_path, environment={"ADDED": "1"}))
    assert {"AWS_SECRET_ACCESS_KEY", "TRT_LAB_SEED", "JPY_PARENT_PID"}.isdisjoint(inside)
    assert (inside["TRT_LAB_ENGINE"], inside["ADDED"]) == ("cpu", "1")
    assert inside["HOME"] == f"{tmp_path}/home" and inside["TMPDIR"] == f"{tmp_path}/tmp"


def test_nothing_that_can_be_read_holds_solutions_or_what_a_course_keeps(tmp_path: Path) -> None:
    hidden = ("solutions", "submitted", "autograded", "feedback", "results", "gradebook.db", ".git", "tests")
    paths = visible(Room(tmp_path))
    assert ROOT / "helpers" in paths
    assert [path for path in paths for name in hidden if (ROOT / name).is_relative_to(path)] == []


def test_a_sandbox_that_is_unknown_or_does_not_work_is_refused_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "trouble", lambda kind: f"no {kind} today")
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(LabError, match="bubblewrap: no bubblewrap today.*--unsafe-no-sandbox"):
        chosen()
    assert chosen(unsafe=True) == "none"
    monkeypatch.setenv(VARIABLE, "bubblewrap")
    with pytest.raises(LabError, match="no bubblewrap today"):
        chosen(unsafe=True)
    monkeypatch.setenv(VARIABLE, "jail")
    with pytest.raises(LabError, match="TRT_LAB_SANDBOX=jail is not known"):
        chosen()
    monkeypatch.setenv(VARIABLE, "none")
    with pytest.raises(LabError, match="TRT_LAB_SANDBOX=none"):
        chosen()


def test_the_gpu_s_devices_are_passed_only_where_they_are_asked_for(tmp_path: Path) -> None:
    plain, environment = command("bubblewrap", ["true"], Room(tmp_path))
    assert "/sys" not in plain and environment["HOME"] == f"{tmp_path}/home"
    assert "/sys" in command("bubblewrap", ["true"], Room(tmp_path, gpu=True))[0]


def test_a_command_reads_its_input_and_writes_only_its_scratch(kind: str, tmp_path: Path) -> None:
    outside = ROOT / "helpers" / f"{tmp_path.parent.name}.txt"
    code = f"""
import os, sys
open("kept", "w").write(sys.stdin.read())
try:
    open({str(outside)!r}, "w")
except OSError:
    print(os.getcwd(), os.access({str(ROOT / "solutions" / "grading")!r}, os.R_OK))
"""
    done = run(python(code), Room(tmp_path / "scratch"), kind=kind, input=b"heard")
    assert (done.returncode, done.ended_by, done.stderr) == (0, "", b"")
    assert done.stdout.decode() == f"{tmp_path}/scratch False\n" or kind == "landlock"
    assert (tmp_path / "scratch" / "kept").read_text() == "heard" and not outside.exists()


@pytest.mark.parametrize(
    "code, limits, said",
    [
        ("x = []\nwhile True: x.append(b'x' * (8 << 20))", Limits(memory_bytes=200 * MIB), "200 MiB of memory"),
        ("for _ in range(40): os.fork() or time.sleep(60)\ntime.sleep(60)", Limits(processes=20), "20 processes"),
        (
            "n = 0\nwhile True: n += 1; open(str(n), 'wb').write(bytes(1 << 20))",
            Limits(scratch_bytes=40 * MIB),
            "wrote",
        ),
        ("time.sleep(60)", Limits(seconds=0.5), "longer than its limit of 0.5 s"),
    ],
    ids=["memory", "processes", "disk", "time"],
)
def test_what_passes_a_limit_is_ended_with_all_that_it_started(
    kind: str, tmp_path: Path, code: str, limits: Limits, said: str
) -> None:
    done = run(python(f"import os, time\n{code}"), Room(tmp_path), limits, kind=kind)
    assert done.returncode != 0 and said in done.ended_by
    assert str(tmp_path) not in _command_lines()


def _command_lines() -> str:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_text())
        except OSError:
            continue
    return "\n".join(line for line in lines if f"\0{os.getpid()}\0" not in line)
