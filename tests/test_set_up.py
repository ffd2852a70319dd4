"""Does `make TORCH=cpu` take PyTorch from the index of CPU builds, both packages, and nothing of CUDA from anywhere?
And which Python does `make` set up with?

The indexes are folders of stand-in wheels on this machine, and Pythons of other versions are scripts; make and both
Makefiles are real.
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

MAKEFILES = {ROOT / "Makefile": ".venv/.installed{}", ROOT / "solutions" / "grading" / "student" / "Makefile": "setup"}
_PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
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
import shutil, sys
from pathlib import Path

sys.version_info = {version}
if sys.argv[1] == "-V":
    print("Python", ".".join(map(str, sys.version_info)))
elif sys.argv[1] == "-c":
    exec(sys.argv[2])
elif sys.argv[2] == "venv":  # pip and the lab's modules do nothing
    folder = Path(sys.argv[-1])
    if "--clear" in sys.argv:
        shutil.rmtree(folder)
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "pyvenv.cfg").touch()
    for name in ("python", "pip"):
        if not (folder / "bin" / name).exists():
            shutil.copy(__file__, folder / "bin" / name)
"""


def _make(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run make, without the options of a make that runs these tests."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "MAKE", "MFLAGS", "TORCH"))
    }
    return subprocess.run(["make", *arguments], cwd=folder, env={**kept, **environment}, capture_output=True, text=True)


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
    folder, torch, vision = tmp_path_factory.mktemp("indexes"), _pinned("torch"), _pinned("torchvision")
    for kind, suffix, needs in (("default", "", ["nvidia_cublas"]), ("cpu", "+cpu", [])):
        add_wheel(folder / kind, "torch", f"{torch}{suffix}", ["filelock", *needs])
        add_wheel(folder / kind, "torch", f"2.99.0{suffix}", ["filelock", *needs])
        add_wheel(folder / kind, "torchvision", f"{vision}{suffix}", [f"torch=={torch}"])
    add_wheel(folder / "default", "nvidia_cublas", "13.0")
    add_wheel(folder / "default", "filelock", _pinned("filelock"))
    with served(folder) as url:
        yield {"PIP_INDEX_URL": f"{url}/default", "TORCH_INDEX": f"{url}/cpu"}


@pytest.mark.slow
@pytest.mark.parametrize("makefile", MAKEFILES, ids=["the repository's", "the students'"])
def test_torch_cpu_installs_what_belongs_together_and_nothing_of_cuda(
    makefile: Path, indexes: dict[str, str], tmp_path: Path
) -> None:
    for file in (makefile, ROOT / "constraints.txt"):
        shutil.copy(file, tmp_path)
    (tmp_path / "pyproject.toml").write_text(_PROJECT)
    (tmp_path / "backend.py").write_text(_BACKEND)
    shutil.copytree(
        ROOT / "tests", tmp_path / "tests", ignore=lambda folder, names: set(names) - {"stand_in_wheels.py"}
    )

    def installed(*options: str) -> dict[str, str]:
        target = MAKEFILES[makefile].format("cpu" if options else "")
        of_pip = {**indexes, "PIP_CONFIG_FILE": os.devnull, "PYTHONPATH": "."}
        done = _make(tmp_path, target, f"PYTHON={sys.executable}", *options, **of_pip)
        assert done.returncode == 0, done.stdout + done.stderr
        names = [path.stem for path in tmp_path.glob(".venv/lib/python*/site-packages/*.dist-info")]
        return dict(re.fullmatch(r"(.*?)-(.*)", name).groups() for name in names)

    expected = {"torch": f"{_pinned('torch')}+cpu", "torchvision": f"{_pinned('torchvision')}+cpu"}
    first = installed("TORCH=cpu")
    assert expected.items() <= first.items() and "nvidia_cublas" not in first
    assert installed() == first, "a call without the option must keep what is installed"


def test_another_value_is_refused_before_anything_is_installed(tmp_path: Path) -> None:
    for makefile in MAKEFILES:
        done = _make(tmp_path, "-f", str(makefile), "TORCH=cuda")
        assert done.returncode and "TORCH=cuda is not known" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.fixture(params=MAKEFILES, ids=["the repository's", "the students'"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with a Makefile, what it reads, and Pythons: `old`, `new` and `newest` that it can have."""
    for file in (request.param, ROOT / "constraints.txt", ROOT / "pyproject.toml"):
        shutil.copy(file, tmp_path)
    for name, version in (("old", (3, 9, 18)), ("new", (3, 12, 1)), ("newest", (3, 15, 0))):
        (tmp_path / name).write_text(_OTHER_PYTHON.format(python=sys.executable, version=version))
        (tmp_path / name).chmod(0o755)
    return tmp_path


def _set_up(project: Path, python: str) -> subprocess.CompletedProcess[str]:
    return _make(project, "setup", f"PYTHON={python}")


def _version(project: Path) -> str:
    return subprocess.run([project / ".venv/bin/python", "-V"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "python, found", [("./old", "Python 3.9.18"), ("./newest", "Python 3.15.0"), ("./none", "not found")]
)
def test_a_python_that_the_lab_does_not_run_on_is_refused_before_anything_is_made(
    project: Path, python: str, found: str
) -> None:
    done = _set_up(project, python)
    line = rf"error: {python} is not Python 3\.10 to 3\.14 \(.*{found}\); .* make setup PYTHON=python3\.12\n"
    assert done.returncode and re.match(line, done.stderr) and done.stdout == ""
    assert not (project / ".venv").exists()


def test_the_way_that_is_named_keeps_what_else_was_asked_for_and_is_one_line(project: Path) -> None:
    (project / "shim").write_text(
        "#!/bin/sh\nprintf 'pyenv: not found\\n\\nOther versions:\\n  3.12.1\\n' >&2\nexit 127\n"
    )
    (project / "shim").chmod(0o755)
    done = _make(project, "setup", "TORCH=cpu", "PYTHON=./shim")
    said = done.stderr.splitlines()[0]
    assert said.endswith("(pyenv: not found); name one that is: make setup TORCH=cpu PYTHON=python3.12")


def test_an_environment_of_an_old_or_lost_python_is_made_again(project: Path) -> None:
    subprocess.run([project / "old", "-m", "venv", project / ".venv"], check=True)
    (project / ".venv" / "of-the-old-one").touch()
    assert _set_up(project, "./new").returncode == 0 and _version(project) == "Python 3.12.1\n"
    assert not (project / ".venv" / "of-the-old-one").exists()
    (project / ".venv" / "bin" / "python").unlink()
    (project / ".venv" / "bin" / "python").symlink_to("/gone/python3.12")
    assert _set_up(project, "./new").returncode == 0 and _version(project) == "Python 3.12.1\n"


def test_an_environment_whose_python_fits_stays_whatever_python_is_named(project: Path) -> None:
    subprocess.run([project / "new", "-m", "venv", project / ".venv"], check=True)
    (project / ".venv" / "mine").touch()
    (project / ".venv" / "bin" / "pip").unlink()
    assert _set_up(project, "./new").returncode == 0 and (project / ".venv" / "bin" / "pip").exists()
    assert _set_up(project, "./old").returncode == 0 and (project / ".venv" / "mine").exists()


def test_the_pythons_that_the_makefiles_and_pages_name_are_those_of_the_project() -> None:
    least, below = re.search(
        r'^requires-python = ">=3\.(\d+),<3\.(\d+)"', (ROOT / "pyproject.toml").read_text(), re.M
    ).groups()
    for makefile in MAKEFILES:
        text = makefile.read_text()
        assert f"not (3, {least}) <= sys.version_info[:2] <= (3, {int(below) - 1})" in text
        assert f"is not Python 3.{least} to 3.{int(below) - 1} (" in text
    for page in (ROOT / "README.md", ROOT / "labs" / "README.md", ROOT / "solutions/grading/student/README.md"):
        assert f"Python 3.{least} to 3.{int(below) - 1} " in page.read_text(), page
