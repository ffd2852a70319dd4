"""Does `make TORCH=cpu` take PyTorch from the index of CPU builds, both packages, and nothing of CUDA from anywhere?

The indexes are folders of stand-in wheels on this machine; pip, make and both Makefiles are real.
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
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "MAKE", "TORCH"))}
        environment = {**kept, **indexes, "PIP_CONFIG_FILE": os.devnull, "PYTHONPATH": "."}
        command = ["make", target, f"PYTHON={sys.executable}", *options]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        names = [path.stem for path in tmp_path.glob(".venv/lib/python*/site-packages/*.dist-info")]
        return dict(re.fullmatch(r"(.*?)-(.*)", name).groups() for name in names)

    expected = {"torch": f"{_pinned('torch')}+cpu", "torchvision": f"{_pinned('torchvision')}+cpu"}
    first = installed("TORCH=cpu")
    assert expected.items() <= first.items() and "nvidia_cublas" not in first
    assert installed() == first, "a call without the option must keep what is installed"


def test_another_value_is_refused_before_anything_is_installed(tmp_path: Path) -> None:
    for makefile in MAKEFILES:
        done = subprocess.run(["make", "-f", makefile, "TORCH=cuda"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode and "TORCH=cuda is not known" in done.stderr
    assert not list(tmp_path.iterdir())
