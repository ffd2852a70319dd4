"""What is found: names by what they belong to, and nothing that belongs to someone else."""

from pathlib import Path

import pytest

from trtcpu.api_changes import load_changes
from trtlab.migrate.findings import changes_until
from trtlab.migrate.migration import Migration, migrate
from trtlab.migrate.uses import COMMON, HINTED


def of(source: str, folder: Path, to: int = 11) -> Migration:
    path = folder / "source.py"
    path.write_text(source)
    return migrate(path, to)


def names(source: str, folder: Path, to: int = 11) -> list[str]:
    """Return what is found, with a question mark where it is only likely."""
    return [row.finding.name + "?" * row.finding.likely for row in of(source, folder, to).rows]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import tensorrt\ntensorrt.UffParser()", ["UffParser"]),
        ("import tensorrt as rt\nb = rt.Builder(rt.Logger())\nb.fp16_mode = True", ["Builder.fp16_mode"]),
        ("from tensorrt import BuilderFlag as Flag\nFlag.FP16", ["BuilderFlag.FP16"]),
        ("from tensorrt import CaffeParser", ["CaffeParser"]),
        ("from helpers.engine.backend import trt\ntrt.BuilderFlag.INT8", ["BuilderFlag.INT8"]),
        ("import tensorrt as trt\ngetattr(trt, 'UffParser')", ["UffParser"]),
        ("import tensorrt as trt\ndef f(c: trt.IBuilderConfig):\n    setattr(c, 'max_workspace_size', 1)", [
            "IBuilderConfig.max_workspace_size"]),
        ("import tensorrt as trt\nclass C(trt.IInt8MinMaxCalibrator): pass", ["IInt8MinMaxCalibrator"]),
        ("import tensorrt as trt\ndef f(e: 'int', x: trt.ICudaEngine):\n    return x.num_bindings, e.num_bindings", [
            "ICudaEngine.num_bindings"]),
        ("import tensorrt as trt\nls = [each for each in trt.Builder(l).create_network()]\nls[0].precision = 1", [
            "ILayer.precision"]),
        ("import tensorrt as trt\ne: trt.ICudaEngine = load()\nlen(e), e['x'], e[0], [e[n] for n in e]", [
            "len(ICudaEngine)", "ICudaEngine[name]", "ICudaEngine[name]"]),
        ("import tensorrt as trt\nn = trt.Builder(l).create_network()\nn.get_input(0).dtype = trt.float16", [
            "ITensor.dtype = …"]),
        ("import tensorrt as trt\ndef f(n: trt.INetworkDefinition):\n n.add_quantize(a, b), n.add_quantize(a, b, c)", [
            "INetworkDefinition.add_quantize(input, scale)"]),
        ("import tensorrt as trt\ndef load():\n    return trt.Runtime(l).deserialize_cuda_engine(p)\n"
         "class A:\n    def __init__(self):\n        self.c = load().create_execution_context()\n"
         "    def run(self):\n        self.c.execute(1, [])", ["IExecutionContext.execute"]),
        ("import tensorrt as trt\nclass A(trt.IGpuAllocator): pass\nclass B(A): pass\nclass A(B): pass\nA().free(1)", [
            "IGpuAllocator.free"]),
        ("import pycuda.autoinit", ["pycuda.autoinit"]),
        ("from pycuda import autoinit", ["pycuda.autoinit"]),
    ],
)  # fmt: skip
def test_a_name_is_found_by_what_it_belongs_to(source: str, found: list[str], tmp_path: Path) -> None:
    assert names(source, tmp_path) == found


@pytest.mark.parametrize(
    "source",
    [
        "from sqlalchemy import create_engine\nengine = create_engine('x')\nengine.execute('select 1')",
        "import torch\nconv = torch.nn.Conv2d(3, 3, 3)\nconv.stride, conv.padding, conv.kernel_size",
        "import tensorrt as trt\nclass Runner:\n    def execute(self, n): pass\nRunner().execute(1)",
        "class Old:\n    def get_binding_shape(self, i): return i\ndef f(x):\n    return x.get_binding_shape(0)",
        "import tensorrt as trt\ndef f(options):\n    return options.max_batch_size, options.int8_mode",
        "import tensorrt as trt\n'trt.UffParser'  # trt.UffParser",
        "import tensorrt as trt\nhasattr(trt, 'UffParser'), getattr(trt, 'UffParser', None)",
        "import tensorrt as trt\nf = lambda engine: engine.execute(1)",
        "def build_cuda_engine(): pass\nbuild_cuda_engine()",
        "import torch_tensorrt as trt\ntrt.UffParser",
        "def f(engine):\n    return engine.max_batch_size, engine.num_bindings",
        "from tensorflow.python.compiler.tensorrt import trt_convert as trt\ntrt.ResizeMode",
    ],
)
def test_what_belongs_to_someone_else_is_not_found(source: str, tmp_path: Path) -> None:
    assert names(source, tmp_path) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(x):\n    return x.get_binding_index('a')", ["ICudaEngine.get_binding_index?"]),
        ("def f(context):\n    return context.get_binding_shape(0)", ["IExecutionContext.get_binding_shape?"]),
        ("import tensorrt\ndef f(x):\n    return x.engine.max_batch_size", ["ICudaEngine.max_batch_size?"]),
        ("import tensorrt\ndef f(builder):\n    builder.fp16_mode = True", ["Builder.fp16_mode?"]),
        (
            "import tensorrt as trt\nlayer = trt.Builder(l).create_network().add_shuffle(x)\n"
            "for layer in model.layers:\n    layer.precision",
            ["ILayer.precision?"],
        ),
        (
            "import tensorrt\nclass A:\n    def f(self):\n        self.config.max_workspace_size = 1",
            ["IBuilderConfig.max_workspace_size?"],
        ),
    ],
)
def test_a_name_whose_owner_is_not_sure_is_likely_and_stays(source: str, found: list[str], tmp_path: Path) -> None:
    assert names(source, tmp_path) == found
    assert of(source, tmp_path).content == source.encode()


def test_what_comes_from_elsewhere_as_well_is_not_rewritten(tmp_path: Path) -> None:
    source = "import tensorrt as trt\nfrom mine import load\ndef size(engine):\n    return engine.num_bindings\n"
    ours = "size(trt.Runtime(l).deserialize_cuda_engine(p))\n"
    assert names(source + ours, tmp_path) == ["ICudaEngine.num_bindings"]
    assert names(source + ours + "size(load())\n", tmp_path) == ["ICudaEngine.num_bindings?"]
    assert names((source + ours + "size(load())\n").replace("(engine)", "(engine: trt.ICudaEngine)"), tmp_path) == [
        "ICudaEngine.num_bindings"
    ]


@pytest.mark.parametrize(
    "guard",
    [
        "if hasattr(engine, 'num_io_tensors'):\n    n = engine.num_io_tensors\nelse:\n    n = engine.num_bindings",
        "n = engine.num_bindings if hasattr(engine, 'num_bindings') else 0",
        "if trt.__version__ < '8.5':\n    n = engine.num_bindings",
        "try:\n    n = engine.num_bindings\nexcept AttributeError:\n    n = 0",
    ],
)
def test_a_name_behind_a_test_of_what_is_there_is_said_to_be_and_stays(guard: str, tmp_path: Path) -> None:
    source = f"import tensorrt as trt\nengine = trt.Runtime(l).deserialize_cuda_engine(p)\n{guard}\n"
    (row,) = of(source, tmp_path).rows
    assert row.finding.guarded and row.finding.name == "ICudaEngine.num_bindings"
    assert of(source, tmp_path).content == source.encode()


def test_a_test_of_something_else_guards_nothing(tmp_path: Path) -> None:
    source = "import tensorrt as trt\nif getattr(args, 'half', None):\n    trt.BuilderFlag.WEIGHTLESS\n"
    (row,) = of(source, tmp_path).rows
    assert not row.finding.guarded and row.rewritten


def test_a_name_is_found_only_where_the_version_aimed_at_lacks_it(tmp_path: Path) -> None:
    source = "import tensorrt as trt\ntrt.BuilderFlag.FP16, trt.BuilderFlag.STRICT_TYPES"
    assert names(source, tmp_path, 10) == ["BuilderFlag.STRICT_TYPES"]
    assert names(source, tmp_path, 11) == ["BuilderFlag.FP16", "BuilderFlag.STRICT_TYPES"]


def test_a_replacement_is_there_in_the_version_aimed_at() -> None:
    assert changes_until(10)["Builder.fp16_mode"].replacement == "config.set_flag(trt.BuilderFlag.FP16)"
    assert "--precision fp16" in changes_until(11)["Builder.fp16_mode"].replacement
    assert "--precision int8" in changes_until(11)["Builder.int8_calibrator"].replacement
    assert "Cast" in changes_until(11)["BuilderFlag.STRICT_TYPES"].replacement


def test_every_name_of_the_list_is_found(tmp_path: Path) -> None:
    lines = ["import tensorrt as trt"]
    for number, name in enumerate(load_changes()):
        owner, _, member = name.rpartition(".")
        lines += [f"def f{number}(it: trt.{owner}):\n    it.{member}"] if owner else [f"trt.{name}"]
    found = of("\n".join(lines), tmp_path)
    assert {row.finding.name for row in found.rows} == load_changes().keys()
    assert not any(row.finding.likely for row in found.rows)


def test_the_common_names_are_members_that_are_gone() -> None:
    members = {name.rpartition(".")[2] for name in load_changes()}
    assert members >= COMMON | HINTED and not COMMON & HINTED
