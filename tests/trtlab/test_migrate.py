"""`trtlab migrate`: which names are found, whose they are, and what is renamed; nothing else in a file changes."""

import json
import os
from pathlib import Path

import pytest

from tests.trtlab.shell import fails
from trtcpu.api_changes import load_changes
from trtlab.migrate import migrate

SOURCE = """import tensorrt as trt
builder = trt.Builder(trt.Logger())
config = builder.create_builder_config()
config.max_workspace_size = sizes[:a:]
config.set_flag(trt.BuilderFlag.STRICT_TYPES)  # Größe
"""


def of(source: str, folder: Path, to: int = 11) -> list[str]:
    """Return what is found, with a question mark where it is only likely."""
    path = folder / "source.py"
    path.write_text(source)
    return [one.change.name + "?" * one.likely for one in migrate(path, to).findings]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import tensorrt\ntensorrt.UffParser()", ["UffParser"]),
        ("import tensorrt as rt\nb = rt.Builder(rt.Logger())\nb.fp16_mode = True", ["Builder.fp16_mode?"]),
        ("from tensorrt import BuilderFlag as Flag\nFlag.FP16", ["BuilderFlag.FP16"]),
        ("from tensorrt import CaffeParser", ["CaffeParser"]),
        ("from helpers.engine.backend import trt\ntrt.BuilderFlag.INT8", ["BuilderFlag.INT8"]),
        ("from helpers import cuda, trt\ntrt.BuilderFlag.INT8", ["BuilderFlag.INT8"]),
        ("import tensorrt as trt\nclass C(trt.IInt8MinMaxCalibrator): pass", ["IInt8MinMaxCalibrator"]),
        ("import tensorrt as trt\ndef f(context):\n    context.execute(1, [])", ["IExecutionContext.execute?"]),
        ("import tensorrt as trt\ndef f(x):\n    x.get_binding_shape(0)", ["ICudaEngine.get_binding_shape?"]),
        ("import tensorrt as trt\nself.context.get_binding_shape(0)", ["IExecutionContext.get_binding_shape?"]),
        ("import tensorrt as trt\nconv_layer.stride = (2, 2)", ["IConvolutionLayer.stride?"]),
        ("import tensorrt as trt\nlayer.precision = trt.int8", ["ILayer.precision?"]),
        # What belongs to someone else.
        ("from sqlalchemy import create_engine\nengine = create_engine('x')\nengine.execute('select 1')", []),
        (
            "import tensorrt as trt, torch\nconv = torch.nn.Conv2d(3, 3, 3)\nconv.stride, conv.padding",
            [],
        ),
        ("import tensorrt as trt\nrunner.execute(1)", []),
        ("def f(engine):\n    return engine.max_batch_size, engine.num_bindings", []),
        ("import tensorrt as trt\n'trt.UffParser'  # trt.UffParser", []),
        ("import torch_tensorrt as trt\ntrt.UffParser", []),
        ("from tensorflow.python.compiler.tensorrt import trt_convert as trt\ntrt.ResizeMode", []),
    ],
)
def test_a_name_is_found_by_how_it_is_written(source: str, found: list[str], tmp_path: Path) -> None:
    assert of(source, tmp_path) == found


@pytest.mark.parametrize("name", load_changes())
def test_every_name_of_the_list_is_found(name: str, tmp_path: Path) -> None:
    assert of(f"import tensorrt as trt\ntrt.{name}", tmp_path)[-1] == name


@pytest.mark.parametrize(("to", "found"), [(10, ["STRICT_TYPES"]), (11, ["FP16", "STRICT_TYPES"])])
def test_a_name_is_found_only_where_the_version_aimed_at_lacks_it(to: int, found: list[str], tmp_path: Path) -> None:
    source = "import tensorrt as trt\ntrt.BuilderFlag.FP16, trt.BuilderFlag.STRICT_TYPES"
    assert of(source, tmp_path, to) == [f"BuilderFlag.{name}" for name in found]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("trt.ResizeMode.LINEAR", "trt.InterpolationMode.LINEAR"),
        (
            "trt.EngineCapability.SAFE_GPU; trt.EngineCapability.DEFAULT",
            "trt.EngineCapability.SAFETY; trt.EngineCapability.STANDARD",
        ),
        ("for i in range(engine.num_bindings): pass", "for i in range(engine.num_io_tensors): pass"),
        (
            "network.add_convolution(x, 1, (3, 3), w).get_output(0)",
            "network.add_convolution_nd(x, 1, (3, 3), w).get_output(0)",
        ),
        ("é = engine . device_memory_size  # bytes", "é = engine . device_memory_size_v2  # bytes"),
        ("config.max_workspace_size = 1 << 30", "config.max_workspace_size = 1 << 30"),
        ("from tensorrt import ResizeMode", "from tensorrt import ResizeMode"),
    ],
)
def test_what_only_has_a_new_name_gets_it(old: str, new: str, tmp_path: Path) -> None:
    path = tmp_path / "old.py"
    path.write_text(f"import tensorrt as trt\r\n{old}\r\n", newline="")
    assert migrate(path, 11).content == f"import tensorrt as trt\r\n{new}\r\n"


def test_a_notebook_keeps_its_form_and_its_lines_for_ipython(tmp_path: Path, trtlab) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["trt.ResizeMode"]},
        {
            "cell_type": "code",
            "source": ["%matplotlib inline\n", "import tensorrt as trt\n", "!nvidia-smi"],
            "outputs": [],
        },
        {"cell_type": "code", "source": "trt.ResizeMode.LINEAR", "outputs": [1]},
        {"cell_type": "code", "source": "print 'two'"},
        {"cell_type": "code", "source": "%%bash\nls"},
    ]
    raw = json.dumps({"cells": cells, "nbformat": 4}, indent=1) + "\n"
    path = tmp_path / "old.ipynb"
    path.write_text(raw)
    found = migrate(path, 11)
    assert [(one.cell, one.line, one.column) for one in found.findings] == [(3, 1, 4)]
    assert [cell for cell, _ in found.faults] == [4]
    assert "cell 3, line 1: ResizeMode is gone" in trtlab("migrate", path)[1]
    assert found.content == raw.replace('"trt.ResizeMode.LINEAR"', '"trt.InterpolationMode.LINEAR"')


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "old.py"
    path.write_text(SOURCE)
    path.chmod(0o755)
    return path


def test_the_report_has_place_version_reason_code_and_replacement(script: Path, trtlab) -> None:
    code, said, _ = trtlab("migrate", script, "--to", 10)
    assert code == 0 and script.read_text() == SOURCE
    assert said.splitlines()[:3] == [
        "line 4: IBuilderConfig.max_workspace_size is gone since TensorRT 10.0, if this is TensorRT's: "
        "the workspace is one of several memory pools",
        "    config.max_workspace_size = sizes[:a:]",
        "    instead: config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, size_in_bytes)",
    ]
    assert said.splitlines()[-1].startswith("2 uses of what is gone in TensorRT 10; 1 can be renamed")
    first, second = json.loads(trtlab("migrate", script, "--to", 10, "--json")[1])["findings"]
    assert (first["line"], first["column"], first["rewritable"], first["likely"]) == (4, 7, False, True)
    assert (second["name"], second["gone_in"], second["rewritable"]) == ("BuilderFlag.STRICT_TYPES", "10.0", True)


@pytest.mark.parametrize("options", [("link.py", "--write"), ("old.py", "--out", "new/new.py")])
def test_a_file_is_rewritten_in_place_or_in_a_copy_and_keeps_its_mode(options: tuple, script: Path, trtlab) -> None:
    Path("link.py").symlink_to(script)
    code, said, _ = trtlab("migrate", *options, "--to", 10)
    assert code == 0 and "[renamed]" in said and "1 renamed in" in said and "1 left to you" in said
    written = Path("new/new.py") if "--out" in options else script
    assert written.read_text() == SOURCE.replace("STRICT_TYPES", "OBEY_PRECISION_CONSTRAINTS")
    assert Path("link.py").is_symlink() and os.access(written, os.X_OK)
    assert written == script or script.read_text() == SOURCE


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        (SOURCE, ("old.py", "--to", 9), "Choose from: 10, 11"),
        (SOURCE, ("old.py", "--write", "--out", "x.py"), "give one of them"),
        (SOURCE, ("old.py", "--out", "x.ipynb"), "give a name that ends in .py"),
        (SOURCE, ("old.py", "--out", "old.py/x.py"), "cannot write"),
        (SOURCE, ("none.py", "--write"), "No such file"),
        ("print 'two'", ("old.py",), "is not Python 3"),
        ("x = (", ("old.py",), "is not Python 3"),
        ("\0", ("old.py", "--write"), "is not Python 3"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_writes_nothing(
    content: str, options: tuple, said: str, script: Path, trtlab
) -> None:
    script.write_text(content)
    fails(trtlab("migrate", *options), said)
    assert os.listdir() == ["old.py"] and script.read_text() == content
