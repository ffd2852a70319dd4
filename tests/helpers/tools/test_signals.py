"""Signals end a process cleanly: at once, after a call that does not look for them, or not at all where ignored."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from helpers.tools.signals import Stopped, clean_ends

ROOT = Path(__file__).parents[3]
HEAD = """import hashlib, os, signal, sys, time
from pathlib import Path
from helpers.tools.files import atomic_path
from helpers.tools.signals import *
"""
STUCK = """
with clean_ends(grace_s=0.1), atomic_path(sys.argv[1]) as temporary:
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # minutes in C, without the interpreter's lock
"""
IGNORED = """
signal.signal(signal.SIGHUP, signal.SIG_IGN)
with clean_ends(), atomic_path(sys.argv[1]) as temporary:
    os.kill(os.getpid(), signal.SIGHUP)
    temporary.write_text("done")
"""
FOLDER = """
from helpers.data.downloads import atomic_folder
grace_s = float(sys.argv[2])
with clean_ends(grace_s), atomic_folder(Path(sys.argv[1]) / "set") as temporary:
    (temporary / "half").write_text("half")
    print("ready", flush=True)
    if grace_s < 1:
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
    time.sleep(60)
"""
TWICE = """
with clean_ends(grace_s=0.1), atomic_path(sys.argv[1]) as temporary:
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.5)
        print("cleaned up", flush=True)
"""

LOST = """
class Dropped:
    def __del__(self):  # what is raised here is printed and dropped
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

with clean_ends(), atomic_path(sys.argv[1]) as temporary:
    temporary.write_text("half")
    Dropped()
    time.sleep(60)
"""


def _start(script: str, target: Path, *rest: object) -> subprocess.Popen:
    command = [sys.executable, "-c", HEAD + script, str(target), *map(str, rest)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, **pipes)


def test_a_call_that_does_not_look_for_signals_is_ended_after_the_grace(tmp_path: Path) -> None:
    with _start(STUCK, tmp_path / "file") as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 143 and err.count("interrupted by SIGTERM") == 1 and "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("grace_s", [60, 0.1], ids=["that unwinds", "in a call that does not look for signals"])
def test_an_unpacking_that_is_stopped_leaves_no_folder(tmp_path: Path, grace_s: float) -> None:
    with _start(FOLDER, tmp_path / "new", grace_s) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 143 and err.count("interrupted by SIGTERM") == 1 and "Traceback" not in err
    assert [path.name for path in tmp_path.glob("new/*")] == [] and not (tmp_path / "new" / "set").exists()


def test_a_signal_that_was_ignored_at_the_start_stays_ignored(tmp_path: Path) -> None:
    with _start(IGNORED, tmp_path / "file") as process:
        assert process.communicate(timeout=60) == ("", "") and process.returncode == 0
    assert (tmp_path / "file").read_text() == "done"


def test_neither_a_second_signal_nor_the_grace_breaks_the_cleaning_up(tmp_path: Path) -> None:
    with _start(TWICE, tmp_path / "file") as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 143 and out == "cleaned up\n" and err.count("interrupted") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_python_dropped_is_raised_again(tmp_path: Path) -> None:
    with _start(LOST, tmp_path / "file") as process:
        out, err = process.communicate(timeout=50)  # less than cleaning up may take
    assert (process.returncode, out, err) == (143, "", "interrupted by SIGTERM; run the same command again to go on\n")
    assert list(tmp_path.iterdir()) == []


def test_the_handlers_are_put_back_and_other_errors_pass() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with pytest.raises(ZeroDivisionError), clean_ends():
        assert signal.getsignal(signal.SIGTERM) != before[1]
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_code_that_expects_ctrl_c_sees_it_in_every_signal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done, clean_ends():
        with pytest.raises(KeyboardInterrupt) as stopped:
            os.kill(os.getpid(), signal.SIGTERM)
        assert isinstance(stopped.value, Stopped)
    assert done.value.code == 143 and "SIGTERM" in capsys.readouterr().err


def test_in_another_thread_the_block_runs_as_it_is() -> None:
    ran: list[int] = []

    def run() -> None:
        with clean_ends():
            ran.append(1)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert ran == [1]


def test_a_signal_that_another_library_takes_ends_as_that_library_says() -> None:
    with clean_ends(grace_s=60):
        signal.signal(signal.SIGTERM, lambda *_: None)
        os.kill(os.getpid(), signal.SIGTERM)
