"""Where others find this repository, its notebooks in Colab, and its releases: all from pyproject.toml."""

import re
from pathlib import Path

BRANCH = "main"
# The name of the students' archive, and of the folder in it.
BUNDLE = "trt-lab-student"
# What the address says until somebody publishes the repository.
_NOBODY = "/OWNER/"
NOT_PUBLISHED = (
    "pyproject.toml's Repository names no owner yet, so there are no links to Colab or GitHub; "
    "set it and run  make labs"
)


def repository_address(root: Path) -> str:
    """Return `Repository` of pyproject.toml's `[project.urls]`, without a slash at its end.

    Raises:
        ValueError: pyproject.toml names no address.
    """
    return _found(root, r'^Repository = "(https://[^"]+?)/?"$', '`Repository = "https://…"` below [project.urls]')


def is_published(address: str) -> bool:
    """Return whether an address of the repository names its owner, so that links to it lead somewhere."""
    return _NOBODY not in address


def in_colab(repository: str, notebook: str) -> str:
    """Return what opens `notebook` (relative to the root) of a repository on GitHub in Colab."""
    return f"https://colab.research.google.com/github/{repository.removeprefix('https://github.com/')}/blob/{BRANCH}/{notebook}"


def bundle_address(root: Path) -> str:
    """Return where the students' archive of this version is published: among the files of its release on GitHub.

    Raises:
        ValueError: pyproject.toml names no address or no version.
    """
    version = _found(root, r'^version = "([^"]+)"$', '`version = "…"` below [project]')
    return f"{repository_address(root)}/releases/download/v{version}/{BUNDLE}.zip"


def _found(root: Path, pattern: str, line: str) -> str:
    found = re.search(pattern, (root / "pyproject.toml").read_text(), re.M)
    if found is None:
        raise ValueError(f"{root}/pyproject.toml has no line {line}; add it")
    return found[1]
