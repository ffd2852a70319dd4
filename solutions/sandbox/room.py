"""What a stranger's process sees, what it may use, and what is reported when it ends."""

import os
import site
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from helpers.tools.term import FILE
from trtcpu.errors import LabError

ROOT = Path(__file__).resolve().parents[2]
# What restricts a process from within.
INSIDE = Path(__file__).parent / "inside"

# NVIDIA's devices, as globs below /.
GPU_FILES = ("dev/nvidia*", "dev/nvidia-caps/*")

# What limits the threads of libraries; OpenBLAS and MKL go by the first if theirs is not set.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

# All that a sandboxed process gets of our environment; what else it needs is named by its `Room`.
_PASSED = (
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "LD_LIBRARY_PATH"),
    *THREADS,
    *("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH", "CUDA_MODULE_LOADING"),
    *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"),
    *("TRT_LAB_ENGINE", "TRT_LAB_API", "TRT_LAB_CUDA", "TRT_LAB_DATA", "TRT_LAB_MODEL", "TRT_LAB_QUICK"),
)

# nbgrader's folder of everybody's submissions, where it is by default.
EXCHANGE = "/usr/local/share/nbgrader/exchange"

# Not /usr as a whole: in /usr/local, as in /home, /srv, /opt and /mnt, lies what a site made, strangers' work too.
_LIBRARIES = ("lib", "lib32", "lib64", "libx32")
_SYSTEM = (
    *(f"/usr/{name}" for name in ("bin", "sbin", "libexec", "include", "share", *_LIBRARIES)),
    *(f"/{name}" for name in ("bin", "sbin", *_LIBRARIES)),
    *("/etc/alternatives", "/etc/fonts"),
)
_PYTHON = ("bin", "lib", "lib64", "include", "pyvenv.cfg")
_CUDA = ("usr/local/cuda*", "usr/local/nvidia")
_SETTINGS = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone", "passwd", "group", "nsswitch.conf")
_CODE = ("helpers", "trtcpu")
_FOLDERS = ("home", "tmp", "shm")


@dataclass(frozen=True)
class Room:
    """What a stranger's process sees besides the system, the interpreter, our code, datasets/ and course.toml.

    Attributes:
        scratch: The only folder it can write, at the same path inside. HOME and TMPDIR lie in it; it is the working
            folder.
        reads: Further files and folders that it can read, at the same paths inside.
        environment: Variables besides those of the allow-list.
        gpu: Whether NVIDIA's devices are passed through.
    """

    scratch: Path
    reads: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    gpu: bool = False


@dataclass(frozen=True)
class Limits:
    """What a sandboxed process and all that it starts may use together.

    Attributes:
        processes: Processes, not threads.
        scratch_bytes: Of the scratch; no file can be larger.
        threads: Of all processes.
        unread_bytes: Of a kernel: what its messages may take of the memory of who runs it.
        scratch_files: Files, folders and links in the scratch.
    """

    memory_bytes: int = 8 << 30
    processes: int = 128
    scratch_bytes: int = 4 << 30
    seconds: float = 3600.0
    threads: int = 4096
    unread_bytes: int = 512 << 20
    scratch_files: int = 10_000


STANDARD = Limits()
_closed: set[Path] = {Path(EXCHANGE)}


def close(exchange: Path) -> None:
    """Show a course's own exchange in no sandbox of this process, as nbgrader's default one is shown in none."""
    _closed.add(exchange)


def visible(room: Room) -> list[Path]:
    """Return the files and folders that can be read inside, the scratch apart; those that exist, and each once.

    Neither solutions/, trtlab/ nor what a course keeps (submissions, gradebook, results) is below any of them.

    Raises:
        LabError: the whole project or nbgrader's exchange lies below one of them, or one lies in the exchange.
    """
    settings = [Path("/etc", name) for name in _SETTINGS]
    python = [Path(prefix, name) for prefix in (sys.prefix, sys.base_prefix) for name in _PYTHON]
    python += _links(Path(sys.executable))
    packages = [Path(name).resolve() for name in site.getsitepackages()]
    project = [ROOT / name for name in (*_CODE, "datasets", FILE)]
    data = [Path(os.environ["TRT_LAB_DATA"])] if os.environ.get("TRT_LAB_DATA") else []
    libraries = [Path(name) for name in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if room.gpu and name]
    libraries += [path for glob in _CUDA if room.gpu for path in Path("/").glob(glob)]
    paths = [*map(Path, _SYSTEM), *settings, *python, *packages, *project, *data, *libraries, *room.reads]
    found = dict.fromkeys(Path(os.path.abspath(path)) for path in paths if path.exists())
    seen = [path for path in found if found.keys().isdisjoint(path.parents)]
    for hidden in (ROOT, *(exchange.resolve() for exchange in _closed if exchange.exists())):
        for path in seen:
            if hidden.is_relative_to(path.resolve()) or (hidden != ROOT and path.resolve().is_relative_to(hidden)):
                raise LabError(f"submissions could read {hidden}, as they need {path}; move one of them")
    return seen


def _links(path: Path) -> list[Path]:
    """Return the links that lead from a file to the one that it is: bubblewrap reaches it by those that it shows."""
    found = []
    while path.is_symlink():
        found.append(path)
        path = path.parent / path.readlink()
    return found


def environment_of(room: Room) -> dict[str, str]:
    """Return the whole environment inside: the allow-list of ours, a fresh HOME and TMPDIR, and what `room` adds."""
    ours = {name: os.environ[name] for name in _PASSED if name in os.environ}
    fresh = {name: str(room.scratch / at) for name, at in (("HOME", "home"), ("TMPDIR", "tmp"), ("PYTHONPATH", "site"))}
    return {"PATH": os.defpath, **ours, **fresh, **room.environment}


def prepare(room: Room) -> None:
    """Make the scratch with its home and its folders for temporary files, shared memory and what Python finds.

    Python finds helpers/ and trtcpu/ by links: it lists a folder to find a module, and nobody may list the project's,
    with the names of all below it. It finds no debugger, which opens a TCP port as a kernel starts.
    """
    site = room.scratch / "site"
    for path in (site, *(room.scratch / name for name in _FOLDERS)):
        if path.is_symlink():  # from whoever ran here before: bubblewrap would follow it
            path.unlink()
    for name in _FOLDERS:
        (room.scratch / name).mkdir(parents=True, exist_ok=True)
    if not site.exists():
        site.mkdir()
        (site / "debugpy.py").write_text("raise ImportError('there is no network')\n")
        for name in _CODE:
            (site / name).symlink_to(ROOT / name)
