"""What is watched around a class: files before and after, processes, peaks, and what reaches listeners."""

import contextlib
import hashlib
import os
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.hostile.attack import MARK
from tests.hostile.outer import HOME, STAGE

_LISTENERS = (
    (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 45450)),
    (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 45450)),
    (socket.AF_UNIX, socket.SOCK_STREAM, "\0hostile"),
    (socket.AF_UNIX, socket.SOCK_STREAM, str(HOME / "agent.sock")),
    (socket.AF_UNIX, socket.SOCK_DGRAM, str(HOME / "log.sock")),
)
_WATCHED = (STAGE / "course", HOME, STAGE / "tmp", Path("/dev/shm"))
_GRADERS = re.compile(
    r"course/((gradebook\.db|grades\.|class\.html|students\.csv|\.[\w.]*lock|\.exchange|backups|\.grading)|"
    r"(autograded|feedback)/([am z]_honest|m-[\w-]+)|downloaded/01_export/(extracted|collected\.json)|labs|"
    r"submitted/z_honest/01_export/01_export.ipynb$)"
)
"""What grading a class writes; in the honest students' folders it must not hold MARK."""

_CACHES = re.compile(
    r"home/(\.cache/|intel/|\.ipython/profile_default/startup/README|\.jupyter/migrated$|\.local/share/jupyter/runtime)|"
    r"tmp/(\.ses$|trt-lab-gate-)"
)
"""What the grader and its libraries leave in a home and among temporary files."""

_GRADING = re.compile(r"multiprocessing\.(spawn|forkserver)")
"""Processes of the grader's own, in their command lines."""


def snapshot() -> dict[str, str]:
    """Return what is there, by path: a digest, after MARKED where the file holds MARK, or where a link leads."""
    walked = (found for root in _WATCHED for found in os.walk(root))
    paths = [Path(folder, name) for folder, folders, files in walked for name in (*folders, *files)]
    return {_name(path): _state(path) for path in paths if path.is_symlink() or not os.path.isdir(path)}


def _name(path: Path) -> str:
    return str(path.relative_to(STAGE)) if path.is_relative_to(STAGE) else str(path)


def _state(path: Path) -> str:
    try:
        if path.is_symlink():
            return f"link to {os.readlink(path)}"
        content = path.read_bytes() if path.is_file() else b"special"
    except OSError as error:
        content = str(error).encode()
    digest = hashlib.sha256(content).hexdigest()
    return f"marked {digest}" if MARK.encode() in content else digest


def changed(before: dict[str, str], attackers: list[str]) -> list[str]:
    """Return the files that were made, changed or removed, or hold MARK, and are not the attackers' own."""
    after = snapshot()
    differing = (path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    own = tuple(f"course/{place}/{name}/" for place in ("submitted", "autograded", "feedback") for name in attackers)
    return sorted(path for path in differing if _harmed(path, after.get(path, ""), own))


def _harmed(path: str, state: str, own: tuple[str, ...]) -> bool:
    if path.startswith(own):
        return state.startswith("link") and not _CACHES.match(path)
    if _GRADERS.match(path):
        return state.startswith(("marked", "link")) and not path.startswith(("course/gra", "course/down"))
    return not _CACHES.match(path)


def survivors() -> list[str]:
    """Return the command line of every other process that runs for three seconds more."""
    running = [process for process in psutil.process_iter(["cmdline"]) if process.pid != os.getpid()]
    _, left = psutil.wait_procs(running, timeout=3)
    return [" ".join(process.info["cmdline"] or ["?"])[:200] for process in left]


class Peaks:
    """The most memory, processes and disk that were seen: of the grader's largest process, and of everything else.

    Of threads it counts what lasts for five looks: thousands can be started between two.
    """

    def __init__(self, grader: int) -> None:
        self.found = {"memory": 0.0, "grader_memory": 0.0, "processes": 0.0, "disk": 0.0}
        self._grader, self._before, self._threads = grader, _used(), deque([0] * 5, maxlen=5)

    def look(self) -> None:
        """Look once."""
        own, theirs, threads = [0.0], [0.0], 0
        for process in psutil.process_iter(["cmdline", "memory_info", "num_threads"]):
            told = process.info
            if process.pid == os.getpid() or not told["memory_info"]:
                continue
            if process.pid == self._grader or _GRADING.search(" ".join(told["cmdline"] or [])):
                own.append(told["memory_info"].rss / 2**20)
            else:
                theirs.append(told["memory_info"].rss / 2**20)
                threads += told["num_threads"] or 0
        self._threads.append(threads)
        now = (sum(theirs), max(own), min(self._threads), _used() - self._before)
        self.found = {name: max(most, one) for (name, most), one in zip(self.found.items(), now, strict=True)}


def _used() -> float:
    return sum(psutil.disk_usage(path).used for path in (str(STAGE), "/dev/shm")) / 2**20


@contextlib.contextmanager
def listening(heard: list[str]) -> Iterator[None]:
    """Listen outside the sandbox over TCP, UDP, by name and by path; what is received goes to `heard`."""
    with contextlib.ExitStack() as stack:
        for family, kind, address in _LISTENERS:
            listener = stack.enter_context(socket.socket(family, kind))
            listener.bind(address)
            hear = _hear if kind == socket.SOCK_DGRAM else _hear_connections
            threading.Thread(target=hear, args=(listener, heard), daemon=True).start()
        yield
        time.sleep(0.2)


def _hear_connections(listener: socket.socket, heard: list[str]) -> None:
    listener.listen(8)
    with contextlib.suppress(OSError):  # it was closed
        while True:
            connection, _ = listener.accept()
            connection.settimeout(2)
            _hear(connection, heard)
            connection.close()


def _hear(source: socket.socket, heard: list[str]) -> None:
    with contextlib.suppress(OSError):  # it was closed; or who waits for an answer does not close
        for part in iter(lambda: source.recv(4096), b""):
            heard.append(part.decode(errors="replace"))
