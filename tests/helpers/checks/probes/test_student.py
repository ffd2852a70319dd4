"""The handle on a submission: student code can fail in any way, and the claims see data."""

import linecache
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from helpers.checks.missed import Missed
from helpers.checks.probes import answer
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.student import Student, read_artifact


@pytest.fixture
def call_it(monkeypatch: pytest.MonkeyPatch) -> str:
    """A probe that calls the student's `work` and returns what it returns."""
    monkeypatch.setattr(answer, "_PROBES", dict(answer._PROBES))

    @probe
    def call_it(notebook: Notebook, *, number: int = 0) -> Any:
        return notebook["work"](number)

    return "call_it"


def test_values_come_back_and_the_same_call_is_answered_from_memory(call_it: str) -> None:
    calls = []
    student = Student.in_process({"work": lambda number: calls.append(number) or number + 1})
    assert [student.call(call_it, number=1).require("work") for _ in range(2)] == [2, 2]
    assert student.call(call_it, number=1, fresh=True).value == 2
    assert calls == [1, 1]


def test_a_missing_function_and_an_unfilled_one_say_so(call_it: str) -> None:
    def unfilled(number: int) -> None:
        raise NotImplementedError

    with pytest.raises(Missed, match="not defined"):
        Student.in_process({}).call(call_it).require("work")
    with pytest.raises(Missed, match="TODO is still there"):
        Student.in_process({"work": unfilled}).call(call_it).require("work")
    with pytest.raises(Missed, match="is a int, not callable"):
        Student.in_process({"work": 3}).call(call_it).require("work")


def test_prints_warnings_and_display_hooks_stay_away_from_the_cell(call_it: str, capfd: pytest.CaptureFixture) -> None:
    def noisy(number: int) -> int:
        print("to stdout")
        print("to stderr", file=sys.stderr)
        warnings.warn("careful", stacklevel=1)
        sys.displayhook(10)
        sys.displayhook = print
        return 1

    hook = sys.displayhook
    reply = Student.in_process({"work": noisy}).call(call_it)
    assert sys.displayhook is hook
    assert "to stdout" in reply.output and "to stderr" in reply.output
    assert capfd.readouterr() == ("", "")


class Unprintable(Exception):
    """An exception that raises when it is printed."""

    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("error", "kind"), [(SystemExit(0), "SystemExit"), (Unprintable(), "Unprintable"), (MemoryError(), "MemoryError")]
)
def test_whatever_student_code_raises_becomes_a_message(call_it: str, error: BaseException, kind: str) -> None:
    def raising(number: int) -> None:
        raise error

    reply = Student.in_process({"work": raising}).call(call_it)
    assert reply.error["type"] == kind
    with pytest.raises(Missed, match=kind):
        reply.require("work")


def test_an_endless_loop_ends_at_the_limit(call_it: str) -> None:
    def endless(number: int) -> None:
        while True:
            pass

    reply = Student.in_process({"work": endless}).call(call_it, limit_s=0.2)
    assert reply.error["type"] == "TimeLimitError"


def test_an_artifact_is_an_ordinary_file_of_the_folder_itself(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    folder.mkdir()
    os.mkfifo(folder / "latency.json")
    with (folder / "throughput.json").open("wb") as file:
        file.truncate(400 << 20)
    (folder / "accuracy.json").mkdir()
    (tmp_path / "report.json").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path)
    (folder / "inference.py").symlink_to("/etc/hostname")
    for name in ("latency.json", "throughput.json", "accuracy.json", "inference.py", "../report.json", "report.json"):
        assert read_artifact(folder, name) is None
    assert read_artifact(tmp_path, "report.json") == b"{}" and read_artifact(tmp_path / "link", "report.json") is None


def _run_cell(source: str, namespace: dict[str, Any], name: str) -> None:
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), namespace)


GOOD = "def work(number):\n    return 1\n"


@pytest.mark.parametrize(
    ("newest", "said"),
    [
        ("def work(number):\n    return number +\n", "invalid syntax in line 2"),
        ("raise_here()\n\ndef work(number):\n    return 2\n", "ended with an error"),
    ],
)
def test_a_cell_whose_last_run_failed_is_not_judged_by_the_run_before(call_it: str, newest: str, said: str) -> None:
    namespace: dict[str, Any] = {"In": ["", GOOD, newest]}
    _run_cell(GOOD, namespace, "<cell 1>")
    with pytest.raises(Missed, match=said):
        Student.in_process(namespace).call(call_it).require("work")
