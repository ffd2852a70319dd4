"""Installs the lab into .venv: `python3 install.py [EXTRA ...]`. `make` calls it; the extras are pyproject.toml's.

It needs nothing but Python, and does nothing if all is installed already. It uses uv if that is on the PATH.

On Linux without an NVIDIA GPU it takes PyTorch's CPU build from PyTorch's own index, which needs 3 GB of disk instead
of 7. The environment variable TORCH=cpu or TORCH=cuda decides otherwise.
"""

from __future__ import annotations  # an old Python has to read this file to say that it is too old

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import urllib.request
import venv
from pathlib import Path

VENV = Path(os.environ.get("VENV") or ".venv")
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
TORCH_INDEX = os.environ.get("TORCH_INDEX", "https://download.pytorch.org/whl/cpu")
PATIENCE_S = 5
_BUILDS = {"cpu", "cuda"}
_IN_UV = {"--index-url": "--default-index", "--force-reinstall": "--reinstall"}
# Packages smaller than this are not worth a line while pip downloads them.
_LARGE_MB = 20


def main(extras: list[str]) -> None:
    """Install the lab with these extras. If that is impossible, say why in one line and exit."""
    os.chdir(Path(__file__).resolve().parent)
    asked = os.environ.get("TORCH", "")
    if asked not in ("", *_BUILDS):
        sys.exit(f"error: TORCH={asked} is not known; it is cpu or cuda")
    project = Path("pyproject.toml").read_text(encoding="utf-8")
    need_python(*map(int, re.findall(r'^requires-python = ">=3\.(\d+),<3\.(\d+)"', project, re.M)[0]))
    digest = hashlib.sha256((project + Path("constraints.txt").read_text(encoding="utf-8")).encode()).hexdigest()
    stamp = VENV / ".installed"
    known, *there = stamp.read_text().split() if stamp.is_file() else [""]
    build = asked or "".join(_BUILDS.intersection(there))
    ours = {*extras, *there} - _BUILDS
    if known == digest and {*there} == {*ours, *build.split()}:
        return
    print("Setting up .venv; the first time this takes some minutes", flush=True)
    index = torch_index(asked, build, bool(known))
    if index or (asked and known):
        again = ["--force-reinstall"] if asked and known else []  # the other build may be there
        install([*again, "--no-deps", *(["--index-url", index] if index else []), "torch", "torchvision"])
    install(["--editable", f".[{','.join(sorted(ours))}]" if ours else "."])
    weights = [PYTHON, "-m", "helpers.toys.bert"]
    if subprocess.run(weights, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        print("The weights of the optional step 11 could not be fetched; its notebook says how to get them")
    stamp.write_text(" ".join([digest, *sorted(ours), "cpu" if index else build]))


def need_python(least: int, below: int) -> None:
    """Make .venv with this Python, unless there is one that fits; exit if this Python does not fit either."""
    pip = "" if shutil.which("uv") else ", pip"  # it lacks pip if its making was stopped
    fits = f"import sys{pip}; sys.exit(not (3, {least}) <= sys.version_info[:2] < (3, {below}))"
    if PYTHON.exists() and subprocess.run([PYTHON, "-c", fits], stderr=subprocess.DEVNULL).returncode == 0:
        return
    if not (3, least) <= sys.version_info[:2] < (3, below):
        again = os.environ.get("LAB_COMMAND", "python3.12 install.py")
        found = f"this is Python {platform.python_version()}"
        sys.exit(f"error: the lab needs Python 3.{least} to 3.{below - 1}, and {found}; name one that fits: {again}")
    try:
        venv.create(VENV, clear=VENV.exists(), symlinks=os.name != "nt", with_pip=True)
    except subprocess.CalledProcessError:
        shutil.rmtree(VENV)
        sys.exit("error: this Python cannot make an environment; on Debian or Ubuntu: apt-get install python3-venv")
    except OSError as error:
        sys.exit(f"error: {VENV} cannot be made: {error.strerror or error}; let this user write to {Path.cwd()}")


def torch_index(asked: str, build: str, there: bool) -> str:
    """Return the index of PyTorch's CPU builds if PyTorch is to come from there, else an empty string.

    `build` is cpu or cuda if that was asked for, now or earlier; `there` tells whether .venv has a PyTorch already.
    """
    if build == "cuda" or (not build and (there or not _needs_a_choice() or _has_gpu())):
        return ""
    try:
        urllib.request.urlopen(f"{TORCH_INDEX}/torch/", timeout=PATIENCE_S).close()
    except OSError as error:
        said = f"{TORCH_INDEX} cannot be reached ({error})"
        if asked:
            sys.exit(f"error: {said}; without TORCH=cpu PyTorch comes from the usual index")
        print(f"{said}: PyTorch comes from the usual index, with CUDA's libraries (7 GB instead of 3)", flush=True)
        return ""
    return TORCH_INDEX


def _needs_a_choice() -> bool:
    """Return whether the usual index has PyTorch with CUDA for this machine; for others it has the CPU build."""
    return sys.platform == "linux"


def _has_gpu() -> bool:
    if Path("/proc/driver/nvidia/version").exists():
        return True
    smi = shutil.which("nvidia-smi")
    return bool(smi) and subprocess.run([smi, "-L"], capture_output=True).returncode == 0


def install(what: list[str]) -> None:
    """Install by uv or pip, in the pinned versions; show what is downloaded, and exit with its error if it fails."""
    if uv := shutil.which("uv"):
        command = [uv, "pip", "install", "--python", PYTHON]
        what = [_IN_UV.get(option, option) for option in what]
    else:
        command = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
    with subprocess.Popen([*command, "-c", "constraints.txt", *what], stdout=subprocess.PIPE, text=True) as installer:
        for line in installer.stdout:  # uv shows its own progress on stderr
            large = re.search(r"Downloading (\S+) \((\d+)[\d.]* (MB|GB)\)", line)
            if large and (large[3] == "GB" or int(large[2]) >= _LARGE_MB):
                print(f"  {large[0]}", flush=True)
    if installer.returncode:
        sys.exit(installer.returncode)


if __name__ == "__main__":
    main(sys.argv[1:])
