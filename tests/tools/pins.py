"""The pinned versions: resolve them again, or prove that they can be had. Both need a package index.

    python -m tests.tools.pins                # each supported Python and platform gets wheels of exactly these versions
    python -m tests.tools.pins --resolve      # write constraints.txt; what is pinned stays where it still can be had

uv resolves for a Python and a platform that are not here. pip cannot: it judges environment markers by its own Python.
Of TensorRT the bindings are asked for: its other packages are no wheels, they fetch NVIDIA's when they are installed.
"""

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import typer

from helpers.engine.gpu_packages import CUDA_PYTHON, TENSORRT

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PLATFORMS = {
    "Linux x86-64, glibc 2.28": "x86_64-manylinux_2_28",
    "Linux ARM, glibc 2.35": "aarch64-manylinux_2_35",
    "macOS 14 ARM": "aarch64-apple-darwin",
    "Windows x86-64": "x86_64-pc-windows-msvc",
}
CONSTRAINTS = ROOT / "constraints.txt"
_HEADER = "# Exact versions that the project is tested with, for every supported Python; made by `make constraints`.\n"
_COMPILE = ("-m", "uv", "pip", "compile", "--quiet", "--no-config", "--only-binary", ":all:", "--no-annotate")
_EXTRAS = ("--no-header", "--extra", "bonus", "--extra", "dev", "--extra", "site", "--extra", "slurm")
_MACOS = {"MACOSX_DEPLOYMENT_TARGET": "14.0"}  # torch and ONNX Runtime have no wheels for an older one


def resolve() -> None:
    """Write constraints.txt for all Pythons and platforms at once."""
    _compiled("--universal", "--python-version", PYTHONS[0], "--output-file", str(CONSTRAINTS))
    CONSTRAINTS.write_text(_HEADER + CONSTRAINTS.read_text())


def faults(pinned: set[str]) -> Iterator[tuple[str, str, str]]:
    """Yield Python, platform and what is wrong there ("" where nothing is), the oldest patch release of each Python."""
    for python in PYTHONS:
        for name, platform in PLATFORMS.items():
            try:
                found = _compiled("--python-version", python, "--python-platform", platform, "-c", str(CONSTRAINTS))
            except subprocess.CalledProcessError as error:
                yield python, name, error.stderr.strip()
            else:
                loose = set(found.split()) - pinned
                yield python, name, f"not pinned: {', '.join(sorted(loose))}" if loose else ""


def gpu_wheels() -> Iterator[tuple[str, str, str, bool]]:
    """Yield Python, platform with CUDA, what can be had of the extras for a GPU, and whether the documents say that."""
    for python, (name, platform), major in itertools.product(PYTHONS, PLATFORMS.items(), CUDA_PYTHON):
        if "macOS" not in name:
            there = _has_gpu_wheels(major, "--python-version", python, "--python-platform", platform)
            said = python != "3.14" and not (major == 12 and "ARM" in name)  # docs/where-it-runs.md
            yield python, f"{name}, CUDA {major}", "wheels" if there else "no wheels of TensorRT", there == said


def _has_gpu_wheels(major: int, *target: str) -> bool:
    """Tell whether cuda-bindings and TensorRT's bindings can be had; for CUDA 13 beside the pins."""
    bindings = TENSORRT[major].replace("==", "-bindings==")
    pins = ("-c", str(CONSTRAINTS)) if major == 13 else ()
    try:
        _uv(*_COMPILE, "--no-header", *target, *pins, "-", text=f"{CUDA_PYTHON[major]}\n{bindings}\n")
    except subprocess.CalledProcessError:
        return False
    return True


def _compiled(*arguments: str) -> str:
    return _uv(*_COMPILE, *_EXTRAS, *arguments, "pyproject.toml")


def _uv(*arguments: str, text: str | None = None) -> str:
    environment = {**os.environ, **_MACOS}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def main(write: bool = typer.Option(False, "--resolve", help="Write constraints.txt again.")) -> None:
    """Prove the pins and a GPU's wheels for each Python and platform, or resolve the pins again."""
    if write:
        return resolve()
    pinned = {line.split(" ;")[0] for line in CONSTRAINTS.read_text().splitlines() if "==" in line}
    found = list(faults(pinned))
    for python, platform, fault in found:
        print(f"Python {python}  {platform:<25} {fault or 'every pin has a wheel'}")
    documented = True
    for python, platform, words, said in gpu_wheels():
        print(f"Python {python}  {platform:<34} {words}{'' if said else ' (docs/where-it-runs.md says otherwise)'}")
        documented &= said
    sys.exit(any(fault for *_, fault in found) or not documented)


if __name__ == "__main__":
    typer.run(main)
