"""`trtlab migrate`: reports by default, writes where it is told, leaves nothing half-written."""

import json
import os
import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SOURCE = """import tensorrt as trt
builder = trt.Builder(trt.Logger())
config = builder.create_builder_config()
config.max_workspace_size = sizes[:a:]
config.set_flag(trt.BuilderFlag.FP16)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "old.py"
    path.write_text(SOURCE)
    path.chmod(0o755)
    return path


def test_the_report_has_place_version_reason_code_and_replacement(script: Path, trtlab) -> None:
    code, said, _ = trtlab("migrate", script)
    assert code == 0 and script.read_text() == SOURCE
    assert said.splitlines()[:3] == [
        "line 4: IBuilderConfig.max_workspace_size is gone since TensorRT 10.0: "
        "the workspace is one of several memory pools",
        "    config.max_workspace_size = sizes[:a:]",
        "    instead: config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, size_in_bytes) [can be rewritten]",
    ]
    assert "`trtlab build --explicit --precision fp16`" in said
    assert said.splitlines()[-1] == (
        "2 uses of what is gone in TensorRT 11; 1 can be rewritten: --write or --out FILE does it"
    )


def test_the_page_shows_what_the_command_prints(trtlab) -> None:
    page = (ROOT / "docs" / "migrate.md").read_text().partition("TensorRT 8:\n\n")[2].partition("\n\n")[0]
    _, said, _ = trtlab("migrate", ROOT / "tests" / "trtlab" / "migrate" / "samples" / "trt8_build.py")
    printed = re.sub(r"  #: .*", "", said)  # what the sample says of itself
    shown = textwrap.dedent(page) + "\n"
    assert all(block in printed for block in re.split(r"(?m)^(?=line )", shown)[1:]) and shown.count("line ") == 2


def test_a_file_is_rewritten_in_place_and_keeps_its_mode(script: Path, trtlab) -> None:
    link = script.with_name("link.py")
    link.symlink_to(script)
    code, said, _ = trtlab("migrate", link, "--write", "--to", 10)
    assert code == 0 and "[rewritten]" in said
    assert said.splitlines()[-1].endswith(f"1 rewritten in {link}, 0 left to you")
    assert "set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, sizes[:a:])" in script.read_text()
    assert link.is_symlink() and os.access(script, os.X_OK)


def test_a_copy_is_written_and_the_file_stays(script: Path, trtlab) -> None:
    code, *_ = trtlab("migrate", script, "--out", script.parent / "new" / "new.py")
    assert code == 0 and script.read_text() == SOURCE
    assert (script.parent / "new" / "new.py").read_text() == SOURCE.replace(
        "max_workspace_size = sizes[:a:]", "set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, sizes[:a:])"
    )


def test_a_file_without_findings_is_not_touched(tmp_path: Path, trtlab) -> None:
    path = tmp_path / "new.py"
    path.write_text("import tensorrt\n")
    os.utime(path, (1, 1))
    code, said, _ = trtlab("migrate", path, "--write")
    assert code == 0 and said == f"{path} uses nothing that is gone in TensorRT 11\n"
    assert path.stat().st_mtime == 1


def test_json_says_the_same(script: Path, trtlab) -> None:
    code, said, _ = trtlab("migrate", script, "--json")
    found = json.loads(said)
    assert code == 0 and found["to"] == 11 and found["unread_cells"] == []
    first, second = found["findings"]
    assert first == {
        "cell": None,
        "line": 4,
        "column": 7,
        "code": "config.max_workspace_size = sizes[:a:]",
        "name": "IBuilderConfig.max_workspace_size",
        "gone_in": "10.0",
        "replacement": "config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, size_in_bytes)",
        "reason": "the workspace is one of several memory pools",
        "likely": False,
        "guarded": False,
        "rewritable": True,
    }
    assert second["name"] == "BuilderFlag.FP16" and not second["rewritable"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--to", 9), "--to 9 is none of 10 and 11"),
        (("--write", "--out", "x.py"), "give one of them"),
        (("--out", "x.ipynb"), "give a name that ends in .py"),
        (("--out", "old.py/x.py"), "cannot write"),
    ],
)
def test_wrong_use_is_one_line_and_writes_nothing(
    options: tuple, said: str, script: Path, trtlab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(script.parent)
    code, out, error = trtlab("migrate", script, *options)
    assert code == 2 and out == "" and said in error and error.count("\n") == 1
    assert [path.name for path in script.parent.iterdir()] == ["old.py"] and script.read_text() == SOURCE


def test_a_missing_file_is_one_line(tmp_path: Path, trtlab) -> None:
    code, _, error = trtlab("migrate", tmp_path / "none.py", "--write")
    assert code == 2 and "No such file" in error and list(tmp_path.iterdir()) == []
