"""What restricts a process from within, as on kernels whose Landlock is older than this one's."""

import subprocess
import sys
from pathlib import Path

import pytest

from solutions.sandbox import trouble
from solutions.sandbox.room import INSIDE

pytestmark = pytest.mark.skipif(bool(trouble("landlock")), reason="Landlock does not work here")
CODE = """
import ctypes, fcntl, os, signal, socket, struct, sys
sys.path.insert(0, {inside!r})
import landlock, seccomp
landlock.version = lambda: {abi}
assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0
landlock.restrict(["/usr", "/lib", "/lib64", {inside!r}], [{scratch!r}], ["/dev/null"], f"/proc/{{os.getpid()}}", False)
seccomp.install(alone=False, own_signals={abi} < landlock.SCOPED)
def tried(what):
    try:
        what()
        return "done"
    except OSError as error:
        return type(error).__name__
SENT = signal.SIGTERM
def by_a_file(own):
    ours, theirs = socket.socketpair()
    own(ours)
    fcntl.fcntl(ours, 10, SENT)
    fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC)
    theirs.send(b"x")
tried(lambda: by_a_file(lambda ours: fcntl.fcntl(ours, 8, {other})))
tried(lambda: by_a_file(lambda ours: fcntl.fcntl(ours, 15, struct.pack("ii", 1, {other}))))
for number in (0x8901, 0x8902):
    tried(lambda: by_a_file(lambda ours: fcntl.ioctl(ours, number, struct.pack("i", {other}))))
print(
    tried(lambda: open({scratch!r} + "/mine", "w")),
    tried(lambda: open({outside!r})),
    tried(lambda: os.truncate({outside!r}, 0)),
    tried(lambda: os.kill(os.getpid(), 0)),
    tried(lambda: os.kill({other}, 0)),
)
"""


@pytest.mark.parametrize("abi", [3, 4, 5, 6])
def test_files_and_signals_are_held_with_each_version_of_landlock(abi: int, tmp_path: Path) -> None:
    scratch, outside = tmp_path / "scratch", tmp_path / "outside"
    scratch.mkdir()
    outside.write_text("kept")
    with subprocess.Popen(["sleep", "60"]) as other:
        told = {"inside": str(INSIDE), "abi": abi, "scratch": str(scratch), "outside": str(outside), "other": other.pid}
        done = subprocess.run([sys.executable, "-I", "-S", "-c", CODE.format(**told)], capture_output=True, text=True)
        ended = other.poll()
        other.kill()
    assert ended is None, "a signal reached another process, by the owner of a file"
    assert (done.stdout.split(), done.stderr) == (["done", *["PermissionError"] * 2, "done", "PermissionError"], "")
    assert outside.read_text() == "kept"
