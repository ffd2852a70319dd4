"""The sandbox without namespaces, Landlock and seccomp, and what minds a process where there is none at all."""

import json
import sys
from pathlib import Path

from solutions.sandbox.room import GPU_FILES, INSIDE, SITE, Limits, Room, visible

_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))
_SYSTEM = (
    *(f"/proc/{name}" for name in ("cpuinfo", "meminfo", "stat", "filesystems", "version", "uptime", "loadavg", "sys")),
    *("/sys/devices", "/sys/bus/pci"),
)
_GPU = ("/proc/driver", "/proc/devices", "/proc/modules", "/sys")


def command(kind: str, argv: list[str], room: Room, limits: Limits, environment: dict[str, str]) -> list[str]:
    """Return the command that runs `argv` under a minder (not on macOS), restricted where `kind` is "landlock"."""
    if not sys.platform.startswith("linux"):
        return list(argv)
    gpu = sorted(str(path) for glob in GPU_FILES for path in Path("/").glob(glob)) if room.gpu else []
    asked = {
        "file_bytes": limits.scratch_bytes,
        "environment": environment,  # exactly: who starts a kernel adds variables of its own
        "reads": [*map(str, visible(room)), str(SITE), *_SYSTEM, *(_GPU if room.gpu else ())],
        "writes": [str(room.scratch)],
        "devices": [*_DEVICES, *gpu],
        "names": room.gpu,  # which CUDA gives its threads
    }
    return [sys.executable, "-I", "-S", str(INSIDE), kind, json.dumps(asked), "--", *argv]
