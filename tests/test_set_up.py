"""What `make` installs, and with which Python: the first command that anybody types.

The package indexes are folders of stand-in wheels on this machine, and Pythons of other versions are scripts. Make,
both Makefiles, install.py, pip and uv are real.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from solutions.grading.layout import ROOT
from tests.stand_in_wheels import add_wheel, served

MAKEFILES = [ROOT / "Makefile", ROOT / "solutions" / "grading" / "student" / "Makefile"]
# Versions of torch and torchvision that are not pinned.
NEWER = ("2.99.0", "0.99.0")
NAMES = ["the repository's", "the students'"]
_PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "lab"
version = "1.0"
requires-python = ">=3.10,<3.15"
dependencies = ["torch>=2.7,<3", "torchvision>=0.22,<1"]
"""
_BACKEND = """
from tests.stand_in_wheels import add_wheel

def build_editable(folder, config_settings=None, metadata_directory=None):
    from pathlib import Path
    add_wheel(Path(folder), "lab", "1.0", ["torch>=2.7,<3", "torchvision>=0.22,<1"])
    Path(folder, "lab", "lab-1.0-py3-none-any.whl").rename(Path(folder, "lab-1.0-py3-none-any.whl"))
    return "lab-1.0-py3-none-any.whl"
"""

_OTHER_PYTHON = """#!{python}
import platform, runpy, shutil, sys, venv

def create(folder, clear, **options):
    if clear:
        shutil.rmtree(folder)
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    shutil.copy(__file__, folder / "bin" / "python")

sys.version_info, venv.create = {version}, create
platform.python_version = lambda: ".".join(map(str, sys.version_info))
if sys.argv[1] == "-V":
    print("Python", platform.python_version())
elif sys.argv[1] == "-c":
    exec(sys.argv[2])
elif sys.argv[1] != "-m":  # pip and the lab's modules do nothing
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


def _make(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run make with the system's programs alone, and without the options of a make that runs these tests."""
    ours = ("PIP_", "UV_", "MAKE", "MFLAGS", "TORCH", "VENV", "LAB_COMMAND", "ENGINE", "TRT_LAB_ENGINE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env={**kept, "PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
    )


def _pinned(name: str) -> str:
    """Return the version of a package for this Python, read from constraints.txt by pip's own library."""
    from packaging.requirements import Requirement

    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = [Requirement(line) for line in lines if line.startswith(f"{name}==")]
    (here,) = [each for each in found if each.marker is None or each.marker.evaluate()]
    return next(iter(here.specifier)).version


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A default index, whose torch needs CUDA, and one of CPU builds; both have a newer torch that is not pinned."""
    folder = tmp_path_factory.mktemp("indexes")
    for kind, suffix, needs in (("default", "", ["nvidia-cublas"]), ("cpu", "+cpu", [])):
        for torch, vision in ((_pinned("torch"), _pinned("torchvision")), NEWER):
            add_wheel(folder / kind, "torch", f"{torch}{suffix}", ["filelock", *needs])
            add_wheel(folder / kind, "torchvision", f"{vision}{suffix}", [f"torch=={torch}"])
    add_wheel(folder / "default", "nvidia_cublas", _pinned("nvidia-cublas"))
    add_wheel(folder / "default", "filelock", _pinned("filelock"))
    with served(folder) as url:
        default = {"PIP_INDEX_URL": f"{url}/default", "UV_DEFAULT_INDEX": f"{url}/default"}
        yield {**default, "TORCH_INDEX": f"{url}/cpu", "PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1"}


@pytest.fixture(params=MAKEFILES, ids=NAMES)
def course(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with a Makefile, install.py and a project that needs torch and torchvision."""
    for file in (request.param, ROOT / "constraints.txt", ROOT / "install.py"):
        shutil.copy(file, tmp_path)
    (tmp_path / "pyproject.toml").write_text(_PROJECT)
    (tmp_path / "backend.py").write_text(_BACKEND)
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "stand_in_wheels.py", tmp_path / "tests")
    return tmp_path


def _installed(course: Path, *options: str, gpu: bool = False, uv: bool = False, **environment: str) -> set[str]:
    """Run `make setup`; return what is installed then, as name-version. nvidia-smi and uv are there as asked for."""
    programs = course / "programs"
    programs.mkdir(exist_ok=True)
    if gpu:
        (programs / "nvidia-smi").write_text("#!/bin/sh\n")
        (programs / "nvidia-smi").chmod(0o755)
    if uv:
        (programs / "uv").symlink_to(Path(sys.executable).with_name("uv"))
    path = os.pathsep.join([str(programs), "/usr/bin", "/bin"])
    environment = {"PYTHONPATH": ".", "PATH": path, **environment}
    done = _make(course, "setup", f"PYTHON={sys.executable}", *options, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.stem for path in course.glob(".venv/lib/python*/site-packages/*.dist-info")}


CPU, CUDA = f"torch-{_pinned('torch')}+cpu", {f"torch-{_pinned('torch')}", f"nvidia_cublas-{_pinned('nvidia-cublas')}"}


@pytest.mark.slow
@pytest.mark.parametrize("uv", [False, True], ids=["pip", "uv"])
def test_without_a_gpu_pytorch_comes_without_cuda_and_later_calls_keep_it(
    course: Path, indexes: dict[str, str], uv: bool
) -> None:
    first = _installed(course, uv=uv, **indexes)
    assert {CPU, f"torchvision-{_pinned('torchvision')}+cpu"} <= first and CUDA.isdisjoint(first)
    pins = (course / "constraints.txt").read_text()
    for name, newer in zip(("torch", "torchvision"), NEWER, strict=True):
        pins = pins.replace(f"{name}=={_pinned(name)}", f"{name}=={newer}")
    (course / "constraints.txt").write_text(pins)
    assert f"torch-{NEWER[0]}+cpu" in _installed(course, **indexes)


@pytest.mark.slow
def test_with_a_gpu_or_where_it_is_asked_for_pytorch_comes_with_cuda(course: Path, indexes: dict[str, str]) -> None:
    assert _installed(course, gpu=True, **indexes) >= CUDA
    assert CPU in _installed(course, "TORCH=cpu", **indexes)
    assert _installed(course, "TORCH=cuda", **indexes) >= CUDA
    shutil.rmtree(course / ".venv")
    assert _installed(course, "TORCH=cuda", **indexes) >= CUDA


@pytest.mark.slow
def test_an_environment_whose_making_was_stopped_is_made_again(course: Path, indexes: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", course / ".venv"], check=True)
    assert CPU in _installed(course, **indexes)


@pytest.mark.slow
def test_where_the_index_of_cpu_builds_does_not_answer_the_usual_one_does(
    course: Path, indexes: dict[str, str]
) -> None:
    nowhere = {**indexes, "TORCH_INDEX": "http://127.0.0.1:9/cpu"}
    assert _installed(course, **nowhere) >= CUDA
    shutil.rmtree(course / ".venv")
    done = _make(course, "setup", f"PYTHON={sys.executable}", "TORCH=cpu", **nowhere)
    assert done.returncode and re.match(r"error: http://127\.0\.0\.1:9/cpu cannot be reached .*TORCH=cpu", done.stderr)


def test_another_build_of_pytorch_is_refused_before_anything_is_installed(course: Path) -> None:
    done = _make(course, "setup", "TORCH=rocm")
    assert done.returncode and "error: TORCH=rocm is not known; it is cpu or cuda\n" in done.stderr
    assert not (course / ".venv").exists()


def test_where_no_environment_can_be_made_one_line_says_so(course: Path) -> None:
    (course / ".venv").touch()
    done = _make(course, "setup", f"PYTHON={sys.executable}", TORCH="cuda")
    line = f"error: .venv cannot be made: Not a directory; let this user write to {course}"
    assert done.returncode and done.stderr.splitlines()[0] == line


@pytest.fixture
def pythons(course: Path) -> Path:
    """The folder with Pythons that it can have: `old`, `new` and `newest`, whose pip does nothing."""
    for name, version in (("old", (3, 9, 18)), ("new", (3, 12, 1)), ("newest", (3, 15, 0))):
        (course / name).write_text(_OTHER_PYTHON.format(python=sys.executable, version=version))
        (course / name).chmod(0o755)
    return course


def _set_up(project: Path, python: str) -> subprocess.CompletedProcess[str]:
    return _make(project, "setup", f"PYTHON={python}", TORCH="cuda")


def _version(project: Path) -> str:
    return subprocess.run([project / ".venv/bin/python", "-V"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("python, found", [("./old", "Python 3.9.18"), ("./newest", "Python 3.15.0")])
def test_a_python_that_the_lab_does_not_run_on_is_refused_before_anything_is_made(
    pythons: Path, python: str, found: str
) -> None:
    done = _set_up(pythons, python)
    again = "make setup PYTHON=python3.12"
    line = f"error: the lab needs Python 3.10 to 3.14, and this is {found}; name one that fits: {again}\n"
    assert done.returncode and done.stderr.startswith(line) and done.stdout == ""
    assert not (pythons / ".venv").exists()


def test_where_there_is_no_python_the_way_that_is_named_keeps_what_else_was_asked_for(pythons: Path) -> None:
    (pythons / "shim").write_text("#!/bin/sh\nprintf 'pyenv: not found\\n\\n  3.12.1\\n' >&2\nexit 127\n")
    (pythons / "shim").chmod(0o755)
    done = _make(pythons, "setup", "TORCH=cpu", "PYTHON=./shim")
    said = done.stderr.splitlines()[0]
    assert said == "error: ./shim cannot be run; name a Python that can: make setup TORCH=cpu PYTHON=python3.12"


def test_an_environment_of_an_old_or_lost_python_is_made_again(pythons: Path) -> None:
    (pythons / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(pythons / "old", pythons / ".venv" / "bin" / "python")
    (pythons / ".venv" / "of-the-old-one").touch()
    assert _set_up(pythons, "./new").returncode == 0 and _version(pythons) == "Python 3.12.1\n"
    assert not (pythons / ".venv" / "of-the-old-one").exists()
    (pythons / ".venv" / "bin" / "python").unlink()
    (pythons / ".venv" / "bin" / "python").symlink_to("/gone/python3.12")
    assert _set_up(pythons, "./new").returncode == 0 and _version(pythons) == "Python 3.12.1\n"


def test_an_environment_whose_python_fits_stays_whatever_python_is_named(pythons: Path) -> None:
    assert _set_up(pythons, "./new").returncode == 0
    (pythons / ".venv" / "mine").touch()
    (pythons / "constraints.txt").write_text("# changed\n")
    for python in ("./old", "./none"):
        assert _set_up(pythons, python).returncode == 0 and (pythons / ".venv" / "mine").exists()


@pytest.mark.parametrize(
    "arguments, environment, engine",
    [
        ((), {}, "auto"),
        ((), {"TRT_LAB_ENGINE": "cpu"}, "cpu"),
        (("ENGINE=tensorrt",), {"TRT_LAB_ENGINE": "cpu"}, "tensorrt"),
    ],
)
def test_make_keeps_the_engine_of_the_environment_unless_it_is_told_another(
    tmp_path: Path, arguments: tuple[str, ...], environment: dict[str, str], engine: str
) -> None:
    (tmp_path / "shown.mk").write_text("shown:\n\t@echo $$TRT_LAB_ENGINE\n")
    files = ["-f", str(MAKEFILES[0]), "-f", "shown.mk"]
    assert _make(tmp_path, *files, "shown", *arguments, **environment).stdout == f"{engine}\n"


def test_the_pythons_that_the_pages_name_are_those_of_the_project() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    least, below = re.search(r'^requires-python = ">=3\.(\d+),<3\.(\d+)"', project, re.M).groups()
    for page in (ROOT / "README.md", ROOT / "labs" / "README.md", ROOT / "solutions/grading/student/README.md"):
        assert f"Python 3.{least} to 3.{int(below) - 1} " in page.read_text(), page
