"""Guard tests: the repository's own files agree with each other."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = sorted(
    path for folder in ("trtcpu", "helpers", "trtlab", "solutions") for path in (ROOT / folder).rglob("*.py")
)


def _tracked(suffix: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", f"*{suffix}"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout: an unpacked archive has no list of tracked files")
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).exists()]


def _dependencies() -> list[str]:
    block = re.search(r"^dependencies = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.S | re.M)
    return re.findall(r'"([^"]+)"', block.group(1))


def test_the_conda_environment_installs_the_project_with_its_constraints_and_names_the_gpu_packages() -> None:
    text, project = (ROOT / "environment.yml").read_text(), (ROOT / "pyproject.toml").read_text()
    environment = yaml.safe_load(text)
    pip = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    assert pip == ["-c constraints.txt", "-e ."]
    requires = re.search(r'requires-python = "([^"]+)"', project).group(1)
    assert f"python{requires}" in environment["dependencies"]
    gpu = re.search(r"^gpu = \[(.*)\]$", project, re.M).group(1)
    assert re.findall(r'^ +# - "(.*)"$', text, re.M) == re.findall(r'"([^"]+)"', gpu)


def test_every_dependency_has_an_exact_version_in_the_constraints() -> None:
    pinned = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    named = {re.split(r"[<>=!~\[ ]", dependency)[0].lower() for dependency in _dependencies()}
    assert named <= pinned


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"


def test_only_two_files_import_openvino() -> None:
    importing = [path for path in PACKAGES if re.search(r"^\s*(import|from) openvino", path.read_text(), re.M)]
    assert sorted(path.name for path in importing) == ["_openvino.py", "_repairs.py"]


def test_only_the_backend_imports_tensorrt_and_pycuda() -> None:
    pattern = re.compile(r"^\s*(import|from) (tensorrt|pycuda)|import_module\(\"(tensorrt|pycuda)", re.M)
    importing = [str(path.relative_to(ROOT)) for path in PACKAGES if pattern.search(path.read_text())]
    assert importing == ["helpers/engine/backend.py"]


def test_links_in_the_documents_lead_somewhere() -> None:
    for document in _tracked(".md"):
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text()):
            if "://" not in target and not target.startswith("mailto:"):
                assert (document.parent / target).exists(), f"{document.name} links to {target}, which is not there"


def test_the_commands_in_the_documents_are_targets_of_a_makefile() -> None:
    makefiles = (ROOT / "Makefile", ROOT / "solutions" / "grading" / "student" / "Makefile")
    targets = {name for path in makefiles for name in re.findall(r"^([a-z][a-z-]*):", path.read_text(), re.M)}
    for document in _tracked(".md"):
        for command in re.findall(r"(?:`|^ {4}|&& )make ([a-z][a-z-]*)", document.read_text(), re.M):
            assert command in targets, f"{document.name} names make {command}"


@pytest.mark.parametrize("makefile", ["Makefile", "solutions/grading/student/Makefile"])
def test_every_target_is_listed_and_none_is_taken_for_a_file(makefile: str) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / makefile).read_text(), re.M))
    make = ["make", "--no-print-directory", "-f", makefile]
    database = subprocess.run([*make, "-pn", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    phony = re.search(r"^\.PHONY: (.*)$", database, re.M)[1].split()
    assert {name for name in phony if not name.startswith(".")} == targets
    shown = subprocess.run([*make, "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    in_help = set(re.findall(r"^make ([a-z-]+)", shown, re.M))
    in_contributing = set(re.findall(r"`make ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text()))
    listed = in_help | (in_contributing if makefile == "Makefile" else set())
    assert len(in_help) <= 14 and in_help <= targets and targets - {"help"} <= listed


def test_the_readme_names_every_command_of_trtlab() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "trtlab", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    commands = re.findall(r"^│ ([a-z][a-z-]*) ", shown, re.M)
    readme = (ROOT / "README.md").read_text()
    assert len(commands) >= 15
    assert [command for command in commands if f"trtlab {command}" not in readme] == []


def test_no_tracked_file_is_larger_than_six_megabytes() -> None:
    for path in _tracked(""):
        assert path.stat().st_size <= 6 << 20, f"{path} has {path.stat().st_size >> 20} MB"


def test_python_files_stay_one_room() -> None:
    for path in _tracked(".py"):
        lines = len(path.read_text().splitlines())
        assert lines <= 450, f"{path} has {lines} lines; split it by purpose"
