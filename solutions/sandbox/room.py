"""What a stranger's process sees, what it may use, and what is told of its end."""

import os
import site
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trtcpu.errors import LabError

ROOT = Path(__file__).resolve().parents[2]
INSIDE = Path(__file__).parent / "inside"
"""What restricts a process from within."""
SITE = Path(__file__).parent / "site"
"""What Python imports first in a sandbox."""

GPU_FILES = ("dev/nvidia*", "dev/nvidia-caps/*")
"""NVIDIA's devices, as globs below /."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
"""What limits the threads of libraries; OpenBLAS and MKL go by the first where theirs is not set."""

_PASSED = (
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "LD_LIBRARY_PATH"),
    *THREADS,
    *("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH", "CUDA_MODULE_LOADING"),
    *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"),
    *("TRT_LAB_ENGINE", "TRT_LAB_API", "TRT_LAB_CUDA", "TRT_LAB_DATA", "TRT_LAB_MODEL", "TRT_LAB_QUICK"),
)
"""All that a sandboxed process gets of our environment; what else it needs is named by its `Room`."""

EXCHANGE = "/usr/local/share/nbgrader/exchange"
"""nbgrader's folder of everybody's submissions, where it is by default."""

_LIBRARIES = ("lib", "lib32", "lib64", "libx32")
_SYSTEM = (
    *(f"/usr/{name}" for name in ("bin", "sbin", "libexec", "include", "share", *_LIBRARIES)),
    *(f"/{name}" for name in ("bin", "sbin", *_LIBRARIES)),
    *("/etc/alternatives", "/etc/fonts"),
)
"""Not /usr as a whole: in /usr/local, as in /home, /srv, /opt and /mnt, lies what a site made, strangers' work too."""

_PYTHON = ("bin", "lib", "lib64", "include", "pyvenv.cfg")
_CUDA = ("usr/local/cuda*", "usr/local/nvidia")
_SETTINGS = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone", "passwd", "group", "nsswitch.conf")
_PROJECT = ("helpers", "trtcpu", "datasets")


@dataclass(frozen=True)
class Room:
    """What the stranger's process sees besides the system, the interpreter, helpers/, trtcpu/ and datasets/."""

    scratch: Path
    """The only folder it can write, at the same path inside. HOME and TMPDIR lie in it; it is the working folder."""
    reads: tuple[Path, ...] = ()
    """Further files and folders that it can read, at the same paths inside."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables besides those of the allow-list."""
    gpu: bool = False
    """Whether NVIDIA's devices are passed through."""


@dataclass(frozen=True)
class Limits:
    """What a sandboxed process and all that it starts may use together."""

    memory_bytes: int = 8 << 30
    processes: int = 128
    """Processes, not threads."""
    scratch_bytes: int = 4 << 30
    """Of the scratch; no file can be larger."""
    seconds: float = 3600.0
    threads: int = 4096
    """Of all processes."""
    unread_bytes: int = 512 << 20
    """Of a kernel: what its messages may take of the memory of who runs it."""
    scratch_files: int = 10_000
    """Files, folders and links in the scratch."""


STANDARD = Limits()


@dataclass(frozen=True)
class Done:
    """How a sandboxed command ended."""

    returncode: int
    """As subprocess gives it: below zero for a signal; inside bubblewrap 128 + its number. 126: it never started."""
    stdout: bytes
    stderr: bytes
    ended_by: str = ""
    """The limit that ended it, as a clause that begins with "it"; empty where it ended by itself."""
    seconds: float = 0.0
    peak_bytes: int = 0
    """The most memory that was seen at one time."""


_closed: set[Path] = set()


def close(exchange: Path) -> None:
    """Show a course's own exchange in no sandbox of this process, as nbgrader's default one is shown in none."""
    _closed.add(exchange)


def visible(room: Room) -> list[Path]:
    """Return the files and folders that can be read inside, the scratch apart; those that exist, and each once.

    Neither solutions/, trtlab/ nor what a course keeps (submissions, gradebook, results) is below any of them, nor is
    nbgrader's exchange: of a folder that holds it the other entries are named, its links left out.

    Raises:
        LabError: the whole project lies below one of them.
    """
    settings = [Path("/etc", name) for name in _SETTINGS]
    python = [Path(prefix, name) for prefix in (sys.prefix, sys.base_prefix) for name in _PYTHON]
    python += _links(Path(sys.executable))
    packages = [Path(name).resolve() for name in site.getsitepackages()]
    project = [ROOT / name for name in _PROJECT]
    data = [Path(os.environ["TRT_LAB_DATA"])] if os.environ.get("TRT_LAB_DATA") else []
    libraries = [Path(name) for name in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if room.gpu and name]
    libraries += [path for glob in _CUDA if room.gpu for path in Path("/").glob(glob)]
    paths = [*map(Path, _SYSTEM), *settings, *python, *packages, *project, *data, *libraries, *room.reads]
    found = dict.fromkeys(Path(os.path.abspath(path)) for path in paths if path.exists())
    seen = [path for path in found if found.keys().isdisjoint(path.parents)]
    if above := [str(path) for path in seen if ROOT.is_relative_to(path.resolve())]:
        raise LabError(f"submissions could read {ROOT}, as it lies in {above[0]}, which they need; move the project")
    for exchange in (Path(EXCHANGE), *_closed):
        seen = [part for path in seen for part in _without(exchange.resolve(), path)]
    return seen


def _links(path: Path) -> list[Path]:
    """Return the links that lead from a file to the one that it is: bubblewrap reaches it by those that it shows."""
    found = []
    while path.is_symlink():
        found.append(path)
        path = path.parent / path.readlink()
    return found


def _without(hidden: Path, path: Path) -> list[Path]:
    """Return what of a file or a folder does not lie in a hidden one."""
    real = path.resolve()
    if real.is_relative_to(hidden):
        return []
    if not (hidden.is_relative_to(real) and os.path.exists(hidden)):
        return [path]
    return [part for entry in sorted(path.iterdir()) if not entry.is_symlink() for part in _without(hidden, entry)]


def environment_of(room: Room, site: str | Path = SITE) -> dict[str, str]:
    """Return the whole environment inside: the allow-list of ours, a fresh HOME and TMPDIR, and what `room` adds.

    `site` is the path inside of what Python imports first.
    """
    ours = {name: os.environ[name] for name in _PASSED if name in os.environ}
    fresh = {"HOME": str(room.scratch / "home"), "TMPDIR": str(room.scratch / "tmp")}
    whole = {"PATH": os.defpath, "PYTHONPATH": str(ROOT), **ours, **fresh, **room.environment}
    return {**whole, "PYTHONPATH": os.pathsep.join([str(site), whole["PYTHONPATH"]])}


def prepare(room: Room) -> None:
    """Make the scratch with its home and its folders for temporary files and shared memory."""
    for name in ("home", "tmp", "shm"):
        (room.scratch / name).mkdir(parents=True, exist_ok=True)
