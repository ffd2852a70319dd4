"""The throw-away namespace that a class is graded in: own processes, no network, one small disk, nothing else writable.

An attack whose guard is off reaches this and nothing behind it. It is made by fork, not by a command: what the grader
imports is imported once for all classes.
"""

import ctypes
import fcntl
import multiprocessing
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from trtcpu.errors import EngineError

STAGE = Path("/mnt")
"""The small disk: course, home and temporary files of a class."""

HOME = STAGE / "home"
SITE = Path("/usr/local/share")
"""Where nbgrader's exchange lies by default; empty, and gone with the class."""

_ORDINARY = 1000
_USER, _REST = 0x10000000, 0x20000000 | 0x00020000 | 0x40000000 | 0x08000000 | 0x04000000
_READ_ONLY, _PRIVATE, _RECURSIVE, _MOUNT_SETATTR, _HERE = 1, 0x40000, 0x8000, 442, -100
_CAPABILITIES, _DEATH_SIGNAL = 0x20080522, 1
_ROOT = Path(__file__).resolve().parents[2]
_libc = ctypes.CDLL(None, use_errno=True)
_PLACES = f"""
mount -t proc proc /proc
mount -t tmpfs -o size=768m,mode=0777 stage {STAGE}
mount -t tmpfs -o size=1m,mode=0777 site {SITE}
cd {STAGE}
mkdir home tmp dev dev/shm dev/pts
for name in null zero full random urandom tty; do
    touch dev/$name
    mount --bind /dev/$name dev/$name
done
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
mount -t tmpfs -o size=512m,mode=1777 shm dev/shm
mount --rbind dev /dev
"""


def inside(call: Callable[[], Any], *, ordinary: bool) -> Any:
    """Return what `call` returns as process 1 of a new namespace, as an ordinary user there or as its root.

    Raises:
        EngineError: no namespace can be made here, or its process ended without an answer.
    """
    try:
        with ProcessPoolExecutor(1, multiprocessing.get_context("fork"), _enter, (ordinary,)) as pool:
            return pool.submit(call).result()
    except BrokenProcessPool as error:
        raise EngineError("the namespace that attacks are kept in could not be made, or has ended") from error


def _enter(ordinary: bool) -> None:
    """Go into the namespace: this process waits for a child, which goes on as process 1."""
    _unshared(_USER | _REST, 0, os.getuid(), os.getgid())
    if first := os.fork():
        os.waitpid(first, 0)
        os._exit(0)
    _libc.prctl(_DEATH_SIGNAL, signal.SIGKILL)
    _make()
    if ordinary:
        _unshared(_USER, _ORDINARY, 0, 0)
        _libc.capset(struct.pack("Ii", _CAPABILITIES, 0), bytes(24))


def _unshared(flags: int, user: int, outer_user: int, outer_group: int) -> None:
    """Go into new namespaces, in which we are `user` and nobody else is anybody."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "no namespace can be made here")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {outer_user} 1")
    Path("/proc/self/gid_map").write_text(f"{user} {outer_group} 1")


def _make() -> None:
    """Make everything read-only but a small disk on STAGE, SITE, /tmp and /dev/shm; bring up the loopback."""
    attributes = struct.pack("QQQQ", _READ_ONLY, 0, _PRIVATE, 0)
    _checked(_libc.syscall(_MOUNT_SETATTR, _HERE, b"/", _RECURSIVE, attributes, len(attributes)), "read-only /")
    needed = any(Path(path).is_relative_to("/tmp") for path in (_ROOT, sys.prefix, sys.base_prefix))
    script = _PLACES if needed else f"{_PLACES}mount --bind tmp /tmp"
    subprocess.run(["sh", "-ec", script], check=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, 0x8914, struct.pack("16sh", b"lo", 0x41))  # SIOCSIFFLAGS: up and running


def _checked(result: int, what: str) -> None:
    if result:
        raise EngineError(f"{what}: {os.strerror(ctypes.get_errno())}")
