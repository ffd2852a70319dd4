"""`python -m tests.hostile.ways_out KIND [NAME…]`: tries ways out of a sandbox, and prints as JSON which led out."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from solutions.sandbox.room import ROOT, Room, visible
from solutions.sandbox.running import OUTPUT_BYTES, Done, run
from solutions.sandbox.scratch import entered, temporary
from tests.hostile.escapes import ESCAPED, ESCAPES, PRELUDE, Escape

_SECRET = "everybody has 100 points"

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


@dataclass(frozen=True)
class Verdict:
    """What became of one way out."""

    name: str
    held: bool
    found: str
    """What was reached, or how it was held, in a few words."""


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
            "readable": str(self.readable),
            "root": str(ROOT),
            "home": str(Path.home()),
            "other": self.other.pid,
            "port": self.port,
            "marker": self.marker,
            "private": private,
            "disk": disks[0].stat().st_rdev if disks else 0,
            "devices": [str(path) for path in disks],
        }

    @property
    def readable(self) -> Path:
        """A file outside that can be read inside."""
        return self.folder / "readable"

    def changes(self) -> str:
        """Return what was done to it, in a few words; empty where nothing was. Then it is made whole again."""
        done = [
            *([] if self.other.poll() is None else ["a process was ended"]),
            *(f"{name} is new" for name in sorted(os.listdir(self.folder)) if name not in _FILES),
            *(f"{name} was changed" for name in _FILES[:2] if _seen(self.folder / name) != _AS_MADE),
            *([f"/dev/shm/{self.marker} was left"] if Path("/dev/shm", self.marker).exists() else []),
            *(["a process was left"] if _processes_with(self.marker, self.other.pid) else []),
        ]
        if done:
            Path("/dev/shm", self.marker).unlink(missing_ok=True)
            (self.folder / "new").unlink(missing_ok=True)
            for pid in _processes_with(self.marker, self.other.pid):
                with contextlib.suppress(OSError):
                    os.kill(pid, 9)
            _make(self.folder)
        return ", ".join(done)


_FILES = ("gradebook.db", "readable", "socket", "datagrams")
_AS_MADE = (0o100600, 10**9, _SECRET)


def _make(folder: Path) -> None:
    for name in _FILES[:2]:
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_text(_SECRET)
        (folder / name).chmod(0o600)
        os.utime(folder / name, (10**9, 10**9))


def _seen(path: Path) -> tuple[int, int, str] | None:
    try:
        found = path.stat()
        return found.st_mode, int(found.st_mtime), path.read_text()
    except OSError:
        return None


def _processes_with(marker: str, but: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if marker in path.read_text(errors="replace") and int(path.parent.name) not in (but, os.getpid()):
                found.append(int(path.parent.name))
    return found


@contextlib.contextmanager
def outside() -> Iterator[Outside]:
    """Make what lies outside, and remove it again."""
    marker = f"trtlab-{uuid.uuid4().hex}"
    folder = Path(tempfile.mkdtemp(prefix="trtlab-outside-", dir=_apart()))
    # Another process with the marker in its command line, and variables of its own.
    other = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(3600)", marker])
    with contextlib.ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for address, sort in (
            (f"{folder}/socket", socket.SOCK_STREAM),
            (f"\0{marker}", socket.SOCK_STREAM),
            (f"{folder}/datagrams", socket.SOCK_DGRAM),
        ):
            stack.enter_context(_listening(address, sort))
        _make(folder)
        try:
            yield Outside(folder, other, tcp.getsockname()[1], marker)
        finally:
            other.kill()
            other.wait()
            shutil.rmtree(folder, ignore_errors=True)


def _apart() -> str | None:
    """Return a folder that no sandbox makes anew, as it does /tmp; None where only that can be written."""
    return next((name for name in ("/var/tmp",) if os.access(name, os.W_OK)), None)


@contextlib.contextmanager
def _listening(address: str, sort: int) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX, sort) as server:
        server.bind(address)
        if sort == socket.SOCK_STREAM:
            server.listen()
        yield


def attempt(escape: Escape, kind: str) -> Verdict:
    """Try one way out of a sandbox of `kind`."""
    with outside() as there, temporary(escape.limits) as folder:
        variables = {"OUTSIDE": json.dumps(there.names())}
        argv = [sys.executable, "-I", "-S", "-c", PRELUDE + escape.code]
        done = run(argv, Room(folder, (there.readable,), variables), escape.limits, kind=kind)
        reached = there.changes() or _reached(escape, done)
    return Verdict(escape.name, not reached, reached or _how(done))


def _reached(escape: Escape, done: Done) -> str:
    """Return what the way out itself says that it reached; empty where it reached nothing."""
    if ESCAPED.encode() in done.stdout:
        return done.stdout.decode(errors="replace").partition(ESCAPED)[2].splitlines()[0].strip()[:60] or "reached"
    if len(done.stdout) > OUTPUT_BYTES:
        return "its output was kept whole"
    expected = escape.ended_by and escape.ended_by in done.ended_by
    return "" if expected or not done.ended_by else f"ended by another limit: {done.ended_by}"


def _how(done: Done) -> str:
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return done.ended_by or (said[-1][:80] if said else "nothing was reached")


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
    chosen = [escape for escape in ESCAPES if not names or escape.name in names]
    with entered():
        verdicts = [attempt(escape, kind) for escape in chosen]
    print(json.dumps({verdict.name: verdict.found for verdict in verdicts if not verdict.held}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
