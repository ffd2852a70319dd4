"""Environments of their own for the tools that try the lab in them; each needs a package index.

pyenv shows its Pythons where PYENV_VERSION names them: PYENV_VERSION=3.12.1:3.13.0.
"""

import subprocess
import sys
from pathlib import Path

UV = (sys.executable, "-m", "uv", "--quiet", "--no-config")


def is_here(version: str) -> bool:
    """Return whether a Python, such as "3.13", is on this machine."""
    return not subprocess.run([*UV, "python", "find", "--no-python-downloads", version], capture_output=True).returncode


def to_make(folder: Path, version: str) -> list[str]:
    """Return the command that makes an empty environment in `folder`, in the place of one that is there."""
    return [*UV, "venv", "--clear", "--no-python-downloads", "--python", version, str(folder)]


def to_install(folder: Path, *what: str) -> list[str]:
    """Return the command that installs `what`, in pip's words, into the environment in `folder`."""
    return [*UV, "pip", "install", "--python", str(folder / "bin" / "python"), *what]
