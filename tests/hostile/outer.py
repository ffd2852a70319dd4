"""The throw-away namespace that a class is graded in: own processes, no network, one small disk, nothing else writable.

An attack whose guard is off reaches this and nothing behind it. It is made by fork, not by a command: what the grader
imports is imported once for all classes.
"""

import ctypes
import fcntl
import os
import pickle
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtcpu.errors import EngineError

STAGE = Path("/mnt")
"""The small disk: course, home and temporary files of a class."""

HOME = STAGE / "home"
SITE = Path("/usr/local/share")
"""Where nbgrader's exchange lies by default; empty, and gone with the class."""

ORDINARY = 1000
_DISK, _SHARED = "768m", "256m"
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_USER, _REST = 0x10000000, 0x20000000 | 0x00020000 | 0x40000000 | 0x08000000 | 0x04000000
_READ_ONLY, _RECURSIVE, _MOUNT_SETATTR, _HERE = 1, 0x8000, 442, -100
_BIND, _PRIVATE, _REC = 0x1000, 0x40000, 0x4000
_CAPABILITIES, _DEATH_SIGNAL = 0x20080522, 1
_ROOT = Path(__file__).resolve().parents[2]
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Inside:
    """A function that runs in a namespace of its own: its process, and where its result comes from."""

    pid: int
    result: int

    def wait(self) -> Any:
        """Return what the function returned.

        Raises:
            EngineError: it raised, or its process ended without an answer; the message holds what it said.
        """
        with os.fdopen(self.result, "rb") as pipe:
            content = pipe.read()
        os.waitpid(self.pid, 0)
        if not content:
            raise EngineError("what ran in the namespace ended without an answer")
        value = pickle.loads(content)  # of our own process; what attacks wrote is text in it
        if isinstance(value, EngineError):
            raise value
        return value

    def kill(self) -> None:
        """End it with everything in it."""
        os.kill(self.pid, signal.SIGKILL)


def begin(function: Callable[[], Any], *, ordinary: bool) -> Inside:
    """Run `function` as process 1 of a new namespace, as an ordinary user there or as its root."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return Inside(pid, reader)
    try:
        _unshared(_USER | _REST, 0, os.getuid(), os.getgid())
        first = os.fork()
        if first:
            os.close(writer)
            os.waitpid(first, 0)
        else:
            _libc.prctl(_DEATH_SIGNAL, signal.SIGKILL)
            _make()
            if ordinary:
                _unshared(_USER, ORDINARY, 0, 0)
                _libc.capset(struct.pack("Ii", _CAPABILITIES, 0), bytes(24))
            _answer(function, writer)
    except BaseException:
        _answer(lambda: EngineError(traceback.format_exc()), writer)
    finally:
        os._exit(0)


def _answer(function: Callable[[], Any], writer: int) -> None:
    try:
        value = function()
    except BaseException:
        value = EngineError(traceback.format_exc())
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(pickle.dumps(value))
    os._exit(0)


def _unshared(flags: int, user: int, outer_user: int, outer_group: int) -> None:
    """Go into new namespaces, in which we are `user` and nobody else is anybody."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "no namespace can be made here, and attacks need one to be kept in")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {outer_user} 1")
    Path("/proc/self/gid_map").write_text(f"{user} {outer_group} 1")


def _make() -> None:
    """Make everything read-only but a small disk on STAGE, /tmp and /dev/shm; bring up the loopback."""
    _mount(None, "/", None, _PRIVATE | _REC)
    read_only = struct.pack("QQQQ", _READ_ONLY, 0, 0, 0)
    _checked(_libc.syscall(_MOUNT_SETATTR, _HERE, b"/", _RECURSIVE, read_only, len(read_only)), "read-only /")
    _mount("tmpfs", str(STAGE), "tmpfs", 0, f"size={_DISK},mode=0777")
    _mount("tmpfs", str(SITE), "tmpfs", 0, "size=1m,mode=0777")
    for name in ("home", "tmp", "dev"):
        (STAGE / name).mkdir()
    _devices(STAGE / "dev")
    if not any(Path(path).is_relative_to("/tmp") for path in (_ROOT, sys.prefix, sys.base_prefix)):
        _mount(str(STAGE / "tmp"), "/tmp", None, _BIND)
    _mount("proc", "/proc", "proc")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, 0x8914, struct.pack("16sh", b"lo", 0x41))  # SIOCSIFFLAGS: up and running


def _devices(folder: Path) -> None:
    for name in _DEVICES:
        (folder / name).touch()
        _mount(f"/dev/{name}", str(folder / name), None, _BIND)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        (folder / name).symlink_to(target)
    for name in ("shm", "pts"):
        (folder / name).mkdir()
    _mount("tmpfs", str(folder / "shm"), "tmpfs", 0, f"size={_SHARED},mode=1777")
    _mount(str(folder), "/dev", None, _BIND | _REC)


def _mount(source: str | None, target: str, kind: str | None, flags: int = 0, data: str | None = None) -> None:
    texts = [text.encode() if text is not None else None for text in (source, target, kind, data)]
    _checked(_libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]), f"mount on {target}")


def _checked(result: int, what: str) -> None:
    if result:
        raise EngineError(f"{what}: {os.strerror(ctypes.get_errno())}")
