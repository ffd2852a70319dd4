"""`python -m tests.hostile.ways_out KIND [NAME…]`: tries ways out of a sandbox, and prints as JSON which led out."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from solutions.sandbox.room import ROOT, Room, visible
from solutions.sandbox.running import OUTPUT_BYTES, Done, run
from solutions.sandbox.scratch import entered, temporary
from tests.hostile.escapes import ESCAPED, ESCAPES, PRELUDE, Escape

A_FEW = [
    "read the hidden checks",
    "write outside the scratch",
    "change a file's mode outside",
    "read through a link",
    "kill another process",
    "kill the owner of a file",
    "read another process's variables",
    "a setuid program gains rights",
    "connect over TCP",
    "a socket by its path outside",
    "a datagram to a socket outside",
    "a full disk at once",
    "a full disk of closed files",
    "memory in closed files",
]
_SECRET = "everybody has 100 points"
_FILES, _SOCKETS = ("gradebook.db", "readable"), ("socket", "datagrams")


@dataclass(frozen=True)
class Outside:
    """What lies outside of a sandbox, for the ways out to reach: files, a process, sockets."""

    folder: Path
    other: subprocess.Popen[bytes]
    port: int
    marker: str

    def names(self) -> dict[str, str | int | list[str]]:
        """Return what the code of a way out is told."""
        disks = [path for path in Path("/dev").glob("[vsn][dv][a-m]*") if path.is_block_device()]
        seen = visible(Room(Path("/nowhere")))
        private = [path.name for path in Path.home().iterdir() if not any(found.is_relative_to(path) for found in seen)]
        return {
            "outside": str(self.folder),
            "readable": str(self.folder / "readable"),
            "root": str(ROOT),
            "home": str(Path.home()),
            "other": self.other.pid,
            "port": self.port,
            "marker": self.marker,
            "private": private,
            "disk": disks[0].stat().st_rdev if disks else 0,
            "devices": [str(path) for path in disks],
        }

    def changes(self) -> str:
        """Return what was done to it, in a few words; empty if nothing was. What was left in the machine goes."""
        left = [process for process in psutil.process_iter(["cmdline"]) if self._is_left(process)]
        for process in left:
            process.kill()
        shared = Path("/dev/shm", self.marker)
        done = [
            *(["a process was ended"] if self.other.poll() is not None else []),
            *(f"{name} is new" for name in sorted(os.listdir(self.folder)) if name not in (*_FILES, *_SOCKETS)),
            *(f"{name} was changed" for name in _FILES if _state(self.folder / name) != (0o100600, 10**9, _SECRET)),
            *([f"{shared} was left"] if shared.exists() else []),
            *(["a process was left"] if left else []),
        ]
        shared.unlink(missing_ok=True)
        return ", ".join(done)

    def _is_left(self, process: psutil.Process) -> bool:
        return self.marker in " ".join(process.info["cmdline"] or []) and process.pid not in (
            self.other.pid,
            os.getpid(),
        )


def _state(path: Path) -> tuple[int, int, str] | None:
    try:
        found = path.stat()
        return found.st_mode, int(found.st_mtime), path.read_text()
    except OSError:
        return None


@contextlib.contextmanager
def outside() -> Iterator[Outside]:
    """Make what lies outside, and remove it again."""
    marker = f"trtlab-{uuid.uuid4().hex}"
    folder = Path(tempfile.mkdtemp(prefix="trtlab-outside-", dir="/var/tmp"))  # each sandbox makes a /tmp of its own
    for name in _FILES:
        (folder / name).write_text(_SECRET)
        (folder / name).chmod(0o600)
        os.utime(folder / name, (10**9, 10**9))
    # Another process with the marker in its command line, and variables of its own.
    other = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(3600)", marker])
    with contextlib.ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for address in (f"{folder}/socket", f"\0{marker}"):
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(address)
            server.listen()
        stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)).bind(f"{folder}/datagrams")
        try:
            yield Outside(folder, other, tcp.getsockname()[1], marker)
        finally:
            other.kill()
            other.wait()
            shutil.rmtree(folder, ignore_errors=True)


def attempt(escape: Escape, kind: str) -> str:
    """Try one way out of a sandbox of `kind`; return what was reached, empty if nothing was."""
    with outside() as there, temporary(escape.limits) as folder:
        variables = {"OUTSIDE": json.dumps(there.names())}
        argv = [sys.executable, "-I", "-S", "-c", PRELUDE + escape.code]
        done = run(argv, Room(folder, (there.folder / "readable",), variables), escape.limits, kind=kind)
        return there.changes() or _reached(escape, done)


def _reached(escape: Escape, done: Done) -> str:
    """Return what the way out itself says that it reached; empty if it reached nothing."""
    if ESCAPED.encode() in done.stdout:
        return done.stdout.decode(errors="replace").partition(ESCAPED)[2].splitlines()[0].strip()[:60] or "reached"
    if len(done.stdout) > OUTPUT_BYTES:
        return "its output was kept whole"
    expected = escape.ended_by and re.search(escape.ended_by, done.ended_by)
    return "" if expected or not done.ended_by else f"ended by another limit: {done.ended_by}"


def led_out(kind: str, names: list[str], user: str) -> dict[str, str]:
    """Try ways out, all without names, in a process of its own, as an "ordinary" user or as "root".

    Returns:
        What was reached, by the name of the way that led there.
    """
    as_user = ["unshare", "--user", "--map-user=1000", "--map-group=1000"] if user == "ordinary" else []
    command = [*as_user, sys.executable, "-m", __name__, kind, *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def _main(kind: str, *names: str) -> None:
    with entered():
        reached = {one.name: attempt(one, kind) for one in ESCAPES if not names or one.name in names}
    print(json.dumps({name: what for name, what in reached.items() if what}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
