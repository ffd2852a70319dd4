"""Dockerfile, .dockerignore and .devcontainer name only what is there. Nobody builds them here: there is no Docker."""

import json
import re

import pytest

from solutions.grading.layout import ROOT

DEVCONTAINER = (ROOT / ".devcontainer" / "devcontainer.json").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()
INSTRUCTIONS = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.M).replace("\\\n", " ")
STAGES = dict(re.findall(r"^FROM \S+ AS (\w+)\n(.*?)(?=^FROM|\Z)", INSTRUCTIONS, re.M | re.S))


def _settings() -> dict:
    return json.loads(re.sub(r"^\s*//.*$", "", DEVCONTAINER, flags=re.M))


def test_the_dockerfile_has_the_two_targets_that_the_page_builds() -> None:
    page = (ROOT / "docs" / "where-it-runs.md").read_text()
    assert set(STAGES) == set(re.findall(r"docker build --target (\w+)", page)) == {"cpu", "gpu"}


@pytest.mark.parametrize("name", [*STAGES, "devcontainer"])
def test_install_py_is_called_for_what_students_need_and_with_the_torch_of_the_place(name: str) -> None:
    text = STAGES.get(name, DEVCONTAINER)
    (found,) = re.findall(r"TORCH=(\w+) python3 install\.py((?: \w+)*)", text)
    assert found == ("cuda" if name == "gpu" else "cpu", ""), "no extras: nobody grades there"
    assert (ROOT / "install.py").is_file() and "make " not in text.replace("git make ", "").replace("make jupyter", "")


@pytest.mark.parametrize("stage", STAGES)
def test_an_image_runs_as_a_user_without_rights_from_the_copy_on(stage: str) -> None:
    names = re.findall(r"^([A-Z]+) (.*)$", STAGES[stage], re.M)
    user = next(value for name, value in names if name == "USER")
    assert user not in ("root", "0") and f"--uid {user} " in STAGES[stage]
    kinds = [name for name, _ in names]
    assert kinds.index("USER") < kinds.index("COPY") and kinds.count("USER") == 1
    assert f"COPY --chown={user} . ." in STAGES[stage]


@pytest.mark.parametrize("stage", STAGES)
def test_what_an_image_starts_and_installs_from_is_there(stage: str) -> None:
    command = json.loads(re.search(r"^CMD (.*)$", STAGES[stage], re.M)[1])
    assert command[:2] == [".venv/bin/jupyter", "lab"]
    page = next(option.split("/lab/tree/")[1] for option in command if "default_url" in option)
    assert (ROOT / page).is_file()
    assert all((ROOT / name).is_file() for name in re.findall(r"pip install .*-c (\S+)", STAGES[stage]))


def test_the_image_with_tensorrt_has_the_version_and_the_cuda_python_of_the_gpu_extra() -> None:
    extra = re.search(r"^gpu = (\[.*\])$", (ROOT / "pyproject.toml").read_text(), re.M)[1]
    cuda_python, tensorrt = json.loads(extra)
    assert re.search(r"last with 10\.x, ([\d.]+),", DOCKERFILE)[1] == tensorrt.split("==")[1]
    assert f"'{cuda_python}'" in STAGES["gpu"]
    page = (ROOT / "docs" / "where-it-runs.md").read_text()
    for text in (DOCKERFILE, page):
        assert re.search(r"26\.06 has\s+(# )?11, which was not run", text)


def test_docker_ignores_what_git_ignores_and_git_itself() -> None:
    def for_docker(pattern: str) -> str:
        name = pattern.strip("/")
        return name if "/" in pattern.rstrip("/") or pattern.startswith("gradebook") else f"**/{name}"

    ignored = {for_docker(line) for line in (ROOT / ".gitignore").read_text().splitlines()}
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert {line for line in lines if not line.startswith("#")} == ignored | {".git"}


def test_the_dev_container_opens_the_environment_that_it_makes_on_jupyter_s_port() -> None:
    settings = _settings()
    assert settings["forwardPorts"] == [8888] == [int(port) for port in settings["portsAttributes"]]
    assert settings["remoteUser"] != "root"
    python = settings["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"]
    assert python == "${containerWorkspaceFolder}/.venv/bin/python"
