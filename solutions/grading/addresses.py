"""Where others find this repository, its notebooks in Colab, and its releases: all from pyproject.toml."""

import re
from pathlib import Path

__all__ = ["BRANCH", "in_colab", "release_address", "repository_address"]

BRANCH = "main"


def repository_address(root: Path) -> str:
    """Return `Repository` of pyproject.toml's `[project.urls]`, without a slash at its end.

    Raises:
        ValueError: pyproject.toml names no address.
    """
    return _found(root, r'^Repository = "(https://[^"]+?)/?"$', '`Repository = "https://…"` below [project.urls]')


def in_colab(repository: str, notebook: str) -> str:
    """Return what opens `notebook` (relative to the root) of a repository on GitHub in Colab."""
    owner_and_name = repository.removeprefix("https://github.com/")
    return f"https://colab.research.google.com/github/{owner_and_name}/blob/{BRANCH}/{notebook}"


def release_address(root: Path) -> str:
    """Return where the files of this version's release are, on GitHub, without a slash at its end.

    Raises:
        ValueError: pyproject.toml names no address or no version.
    """
    version = _found(root, r'^version = "([^"]+)"$', '`version = "…"` below [project]')
    return f"{repository_address(root)}/releases/download/v{version}"


def _found(root: Path, pattern: str, line: str) -> str:
    found = re.search(pattern, (root / "pyproject.toml").read_text(), re.M)
    if found is None:
        raise ValueError(f"{root}/pyproject.toml has no line {line}; add it")
    return found[1]
