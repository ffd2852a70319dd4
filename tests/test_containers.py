"""Dockerfile, .dockerignore and .devcontainer name only what is there. Nobody builds them here: there is no Docker."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def _targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.M))


def test_the_make_targets_that_they_call_exist() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    commands = [container["postCreateCommand"], *re.findall(r"^RUN (.+)$", (ROOT / "Dockerfile").read_text(), re.M)]
    called = [target for command in commands for target in re.findall(r"(?:^|&& )make ([a-z-]+)", command)]
    assert len(called) == 3 and set(called) <= _targets()


def test_both_stages_start_jupyterlab_as_somebody_without_rights_on_the_start_page() -> None:
    stages = re.split(r"^FROM ", (ROOT / "Dockerfile").read_text(), flags=re.M)[1:]
    assert [re.search(r" AS (\w+)", stage)[1] for stage in stages] == ["cpu", "gpu"]
    for stage in stages:
        command = json.loads(re.search(r"^CMD (.+)$", stage, re.M)[1])
        assert command[0] == ".venv/bin/jupyter" and stage.index("USER student") < stage.index("COPY")
        page = next(part.partition("/lab/tree/")[2] for part in command if "default_url" in part)
        assert (ROOT / page).is_file()


def test_what_is_large_or_private_stays_outside() -> None:
    left_out = set((ROOT / ".dockerignore").read_text().split())
    assert {".git", ".venv", "results", "dist"} <= left_out
