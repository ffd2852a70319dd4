"""What is watched around a class: files before and after, processes, peaks, and what reaches listeners."""

import hashlib
import os
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from tests.hostile.attack import MARK, Seen
from tests.hostile.outer import HOME, STAGE

PORT, ABSTRACT = 45450, "\0hostile"
SOCKET, LOG = HOME / "agent.sock", HOME / "log.sock"
_COURSE = STAGE / "course"
_WATCHED = (_COURSE, HOME, STAGE / "tmp", Path("/dev/shm"))
_LARGEST = 8 << 20
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

_GRADING = re.compile(rb"tests\.hostile\.judge|solutions\.grading\.work\.place")
"""Processes of the grader's own, in their command lines."""

Snapshot = dict[str, str]


def _name(path: Path) -> str:
    return str(path.relative_to(STAGE)) if path.is_relative_to(STAGE) else str(path)


def _files() -> Iterator[Path]:
    for root in _WATCHED:
        for folder, folders, files in os.walk(root):
            yield from (Path(folder, name) for name in files)
            yield from (path for name in folders if (path := Path(folder, name)).is_symlink())


def snapshot() -> Snapshot:
    """Return what is there: a digest, or a link's target, by path."""
    return {_name(path): _state(path) for path in _files()}


def _state(path: Path) -> str:
    try:
        if path.is_symlink():
            return f"link to {os.readlink(path)}"
        if not path.is_file():
            return "special"
        if path.stat().st_size > _LARGEST:
            return f"{path.stat().st_size} bytes"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"


def changed(before: Snapshot, attackers: list[str]) -> list[str]:
    """Return the files that were made, changed or removed, or hold MARK, and are not the attackers' own."""
    after = snapshot()
    differing = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    own = tuple(f"course/{place}/{name}/" for place in ("submitted", "autograded", "feedback") for name in attackers)
    differing = {path for path in differing if not _CACHES.match(path)}
    graders = {path for path in differing if _GRADERS.match(path)}
    marked = {path for path in graders if not path.startswith((*own, "course/gra", "course/down")) and _holds(path)}
    marked |= {path for path in differing if path.startswith(own) and after.get(path, "").startswith("link to")}
    return sorted(path for path in (differing - graders) | marked if path in marked or not path.startswith(own))


def _holds(name: str) -> bool:
    try:
        return MARK.encode() in (STAGE / name).read_bytes()
    except OSError:
        return False


def others() -> list[tuple[int, str]]:
    """Return every other process that runs, with its command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        if (pid := int(entry.name)) == os.getpid():
            continue
        try:
            if (entry / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                found.append(
                    (pid, (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200])
                )
        except OSError:
            continue
    return found


class Peaks:
    """Samples memory, threads and disk ten times a second: of the grader's largest process, and of everything else.

    Of threads it keeps what lasted for half a second: thousands can be started before anybody looks.
    """

    def __init__(self, seen: Seen, grader: int) -> None:
        self._seen, self._grader, self._ended = seen, grader, threading.Event()
        self._before = _used()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        seen, recent = self._seen, deque(maxlen=5)
        while not self._ended.wait(0.1):
            memory, grader, threads = self._held()
            seen.peak_memory_mb = max(seen.peak_memory_mb, memory)
            seen.peak_grader_mb = max(seen.peak_grader_mb, grader)
            recent.append(threads)
            if len(recent) == recent.maxlen:
                seen.peak_processes = max(seen.peak_processes, min(recent))
            seen.peak_disk_mb = max(seen.peak_disk_mb, _used() - self._before)

    def _held(self) -> tuple[float, float, int]:
        """Return the megabytes of the others together and of the grader's largest process, and the others' threads."""
        own, theirs, threads = 0, 0, 0
        for entry in Path("/proc").glob("[0-9]*"):
            if entry.name == str(os.getpid()):
                continue
            try:
                pages = int((entry / "statm").read_text().split()[1])
                if int(entry.name) == self._grader or _GRADING.search((entry / "cmdline").read_bytes()):
                    own = max(own, pages)
                    continue
                theirs += pages
                threads += int((entry / "stat").read_text().rpartition(")")[2].split()[17])
            except (OSError, IndexError):
                continue
        page = os.sysconf("SC_PAGE_SIZE") / 2**20
        return theirs * page, own * page, threads


def _used() -> float:
    found = [os.statvfs(path) for path in (STAGE, "/dev/shm")]
    return sum((at.f_blocks - at.f_bfree) * at.f_frsize for at in found) / 2**20


class Listeners:
    """Sockets outside the sandbox: TCP, UDP, abstract and by path; what they receive is kept in `heard`."""

    def __init__(self, seen: Seen) -> None:
        self._seen, self._open = seen, []

    def __enter__(self) -> "Listeners":
        for family, kind, address in (
            (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", PORT)),
            (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", PORT)),
            (socket.AF_UNIX, socket.SOCK_STREAM, ABSTRACT),
            (socket.AF_UNIX, socket.SOCK_STREAM, str(SOCKET)),
            (socket.AF_UNIX, socket.SOCK_DGRAM, str(LOG)),
        ):
            listener = socket.socket(family, kind)
            listener.bind(address)
            self._open.append(listener)
            if kind == socket.SOCK_STREAM:
                listener.listen(8)
            threading.Thread(target=self._hear, args=(listener, kind, str(address)), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        time.sleep(0.2)
        for listener in self._open:
            listener.close()

    def _hear(self, listener: socket.socket, kind: int, name: str) -> None:
        while True:
            try:
                data = listener.recv(200) if kind == socket.SOCK_DGRAM else _received(listener.accept()[0])
            except OSError:
                return
            self._seen.heard.append(f"{name.strip(chr(0))}: {data.decode(errors='replace')}")


def _received(connection: socket.socket) -> bytes:
    """Return the end of what a connection says within two seconds."""
    data = b""
    with connection:
        connection.settimeout(2)
        try:
            while part := connection.recv(200):
                data += part
        except OSError:
            pass  # who waits for an answer does not close
    return data[-200:]
