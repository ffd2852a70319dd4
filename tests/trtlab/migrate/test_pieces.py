"""Notebooks: cells and their lines, magics, cells that are no Python, and that nothing else in the file changes."""

import functools
import json
from pathlib import Path

import pytest

from trtcpu.errors import InputError
from trtlab.migrate.migration import migrate

ROOT = Path(__file__).resolve().parents[3]
SOLUTIONS = sorted(ROOT.glob("solutions/[0-9]*/*.ipynb"))
MAGICS = """%matplotlib inline
!pip install \\
    tensorrt
import tensorrt as trt
files = !ls
n = 7 % 4
builder = trt.Builder(trt.Logger())
if n:
    %time builder.create_network()
builder.max_workspace_size = 1 << 20
builder?"""


of_the_lab = functools.cache(functools.partial(migrate, to=11))
"""The migration of one of the lab's notebooks to TensorRT 11."""


def notebook(folder: Path, *cells: str | tuple[str, str], indent: int | None = 1, as_list: bool = True) -> Path:
    """Write a notebook of code cells; a pair is a cell's type and source."""
    made = []
    for cell in cells:
        kind, source = cell if isinstance(cell, tuple) else ("code", cell)
        more = {"execution_count": 1, "outputs": []} if kind == "code" else {}
        made.append(
            {"cell_type": kind, "metadata": {"ü": 1}, **more, "source": source.splitlines(True) if as_list else source}
        )
    path = folder / "notebook.ipynb"
    content = {"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(content, indent=indent, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def sources(content: bytes) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(content)["cells"]]


def test_names_are_followed_from_cell_to_cell(tmp_path: Path) -> None:
    path = notebook(
        tmp_path,
        ("markdown", "# trt.UffParser"),
        "import tensorrt as trt\nb = trt.Builder(l)",
        "print()\nb.fp16_mode = 1",
    )
    (row,) = migrate(path, 11).rows
    assert str(row.place) == "cell 3, line 2" and row.code == "b.fp16_mode = 1"


def test_magics_are_passed_over_and_stay(tmp_path: Path) -> None:
    found = migrate(notebook(tmp_path, MAGICS, "%%time\n\nbuilder.max_workspace_size = 3"), 11)
    assert [str(row.place) for row in found.rows] == ["cell 1, line 10", "cell 2, line 3"] and not found.faults
    before, after = sources(found.content)
    lines = MAGICS.splitlines()
    assert before.splitlines()[:7] == lines[:7] and before.splitlines()[-4:-2] == lines[-4:-2]
    assert before.splitlines()[-2:] == [
        "config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 20)",
        "builder?",
    ]
    assert after == "%%time\n\nconfig.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 3)"


def test_what_a_magic_times_is_looked_at(tmp_path: Path) -> None:
    cell = "import tensorrt as trt\nfor _ in '1':\n    %timeit -n 10 trt.ResizeMode.LINEAR\n%time trt.UffParser()"
    found = migrate(notebook(tmp_path, cell), 11)
    assert [(str(row.place), row.code) for row in found.rows] == [
        ("cell 1, line 3", "%timeit -n 10 trt.ResizeMode.LINEAR"),
        ("cell 1, line 4", "%time trt.UffParser()"),
    ]
    assert [row.place.column for row in found.rows] == [22, 10]
    assert sources(found.content) == [cell.replace("ResizeMode", "InterpolationMode")]


def test_cells_of_other_languages_are_passed_over(tmp_path: Path) -> None:
    found = migrate(
        notebook(tmp_path, "%%bash\ntrt.UffParser (", "%%writefile a.py\nimport tensorrt\ntensorrt.UffParser"), 11
    )
    assert [row.place for row in found.rows] == [(2, 3, 9)] and not found.faults


def test_a_cell_that_is_no_python_is_named_and_the_others_are_done(tmp_path: Path) -> None:
    path = notebook(tmp_path, "import tensorrt as trt", "print 'TensorRT 4'", "trt.ResizeMode.NEAREST", "x = (")
    found = migrate(path, 11)
    assert [cell for cell, _ in found.faults] == [2, 4]
    assert all(reason.startswith("line 1: ") and "\n" not in reason for _, reason in found.faults)
    assert sources(found.content) == [*sources(path.read_bytes())[:2], "trt.InterpolationMode.NEAREST", "x = ("]


@pytest.mark.parametrize("indent", [None, 1, 2])
@pytest.mark.parametrize("as_list", [True, False])
def test_only_the_rewritten_cells_lines_change(indent: int | None, as_list: bool, tmp_path: Path) -> None:
    path = notebook(tmp_path, "# ä\nimport tensorrt as trt", "trt.ResizeMode", indent=indent, as_list=as_list)
    expected = path.read_bytes().replace(b"trt.ResizeMode", b"trt.InterpolationMode")
    assert migrate(path, 11).content == expected


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_a_notebook_of_the_lab_changes_only_where_rewritten(path: Path) -> None:
    found = of_the_lab(path)
    assert found.faults == []
    changed = {row.place.cell for row in found.rows if row.rewritten}
    cells, before = json.loads(found.content)["cells"], json.loads(path.read_bytes())["cells"]
    assert {number for number, pair in enumerate(zip(cells, before, strict=True), 1) if pair[0] != pair[1]} == changed
    assert changed or found.content == path.read_bytes()


def test_the_steps_of_the_lab_use_what_11_lacks_where_they_teach_10() -> None:
    used = {}
    for step in ("02_fp16", "03_dynamic", "04_int8", "09_mixed_precision"):
        rows = of_the_lab(ROOT / "solutions" / step / f"{step}.ipynb").rows
        used[step] = {row.finding.name for row in rows}
        assert not any(row.finding.likely for row in rows)
    batch = {"NetworkDefinitionCreationFlag.EXPLICIT_BATCH"}
    assert used["02_fp16"] == used["03_dynamic"] == {"BuilderFlag.FP16"} | batch
    int8 = {"BuilderFlag.INT8", "IInt8EntropyCalibrator2", "IBuilderConfig.int8_calibrator"} | batch
    assert used["04_int8"] == int8
    layers = {
        "ILayer.precision",
        "ILayer.set_output_type",
        "BuilderFlag.OBEY_PRECISION_CONSTRAINTS",
        "BuilderFlag.FP16",
    }
    assert used["09_mixed_precision"] == int8 | layers


def test_the_steps_of_the_lab_use_nothing_that_10_lacks() -> None:
    assert {row.finding.gone_in for path in SOLUTIONS for row in of_the_lab(path).rows} == {"11.0"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b"", "is no Python script and no notebook; give a file that ends in .py or .ipynb"),
        ("a.py", b"print 'x'\n", "is not Python 3: line 1: "),
        ("a.py", b"# coding: nothing\n", "is no text in its encoding"),
        ("a.py", b"\xff\xfe\n", "is no text in its encoding"),
        ("a.py", b"x = " + b"+".join([b"1"] * 3000), "nests expressions too deeply to be followed"),
        ("a.ipynb", b"{", "is not a notebook of format 4"),
        ("a.ipynb", b'{"worksheets": []}', "is not a notebook of format 4: it holds no list of cells"),
        ("a.ipynb", b"[]", "is not a notebook of format 4"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        migrate(path, 11)
    assert said in str(caught.value)


def test_a_script_keeps_its_encoding(tmp_path: Path) -> None:
    path = tmp_path / "latin.py"
    path.write_bytes("# -*- coding: latin-1 -*-\nimport tensorrt as trt\ntrt.ResizeMode  # größe\n".encode("latin-1"))
    assert migrate(path, 11).content == path.read_bytes().replace(b"ResizeMode", b"InterpolationMode")
