"""What is rewritten, from small source to small source; everything else stays byte for byte."""

import io
import tokenize
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.trtlab.migrate.marks import SAMPLES
from trtlab.migrate.findings import changes_until
from trtlab.migrate.migration import migrate
from trtlab.migrate.rewrites import _BY_HAND

HERE = Path(__file__).parent
HEAD = """import tensorrt as trt
logger = trt.Logger()
builder = trt.Builder(logger)
network = builder.create_network()
config = builder.create_builder_config()
engine = trt.Runtime(logger).deserialize_cuda_engine(plan_bytes)
context = engine.create_execution_context()
"""


def rewritten(source: str, folder: Path, to: int = 11) -> str:
    path = folder / "source.py"
    path.write_text(source)
    return migrate(path, to).content.decode()


@pytest.mark.parametrize(
    "case", (HERE / "rewrites.txt").read_text().split("----\n"), ids=lambda case: case[:40].strip()
)
def test_what_is_mechanical_is_rewritten(case: str, tmp_path: Path) -> None:
    old, _, new = case.partition("=>\n")
    assert rewritten(HEAD + old, tmp_path) == HEAD + new


@pytest.mark.parametrize(
    "source",
    [
        "engine.get_binding_index('x')\n",
        "engine.get_binding_shape(anything)\n",  # an index or a name
        "context.execute_async_v2(*arguments)\n",
        "context.execute_async_v2(buffers, stream.handle, consumed)\n",
        "pool.submit(context.execute_async_v2, buffers, 0)\n",
        "if context.execute_async_v2(buffers, 0): pass\n",
        "index = address = 1\nbinding_index = 2\ncontext.execute_async_v2(buffers, 0)\n",
        "config.max_workspace_size *= 2\n",
        "config.max_workspace_size = size = 2\n",
        "builder.max_batch_size = 8\n",  # does something where batches are implicit
        "config.set_flag(trt.BuilderFlag.FP16)\n",
        "builder.fp16_mode = True\n",
        "make(config).int8_calibrator = calibrator\n",
        "flag = trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH\n",
        "config.min_timing_iterations = 3\n",
        "build = builder.build_engine\n",
        "net = builder.create_network(3)\n",
        "engine = builder.build_engine(network,  # mine\n    config)\n",
    ],
)
def test_what_needs_judgement_is_found_and_stays(source: str, tmp_path: Path) -> None:
    assert rewritten(HEAD + source, tmp_path) == HEAD + source


def test_a_configuration_is_made_where_there_is_none(tmp_path: Path) -> None:
    source = (
        "import tensorrt as trt\nb = trt.Builder(trt.Logger())  # mine\nif big:\n    b.max_workspace_size = 5\nuse(b)\n"
    )
    assert rewritten(source, tmp_path).splitlines()[1:5] == [
        "b = trt.Builder(trt.Logger())  # mine",
        "config = b.create_builder_config()",
        "if big:",
        "    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 5)",
    ]


def test_new_lines_end_and_indent_as_the_old_ones(tmp_path: Path) -> None:
    source = "import tensorrt as trt\ndef f(c: trt.IExecutionContext):\n\tc.execute_async_v2(a, b)\n"
    assert b"\n\t\tc.set_tensor_address" in rewritten(source, tmp_path).encode()
    (tmp_path / "crlf.py").write_bytes(b"\xef\xbb\xbf" + source.replace("\n", "\r\n").encode())
    content = migrate(tmp_path / "crlf.py", 11).content
    assert content.startswith(b"\xef\xbb\xbfimport") and content.count(b"\n") == content.count(b"\r\n") == 5


def test_a_configuration_that_comes_too_late_is_not_taken(tmp_path: Path) -> None:
    source = (
        "import tensorrt as trt\nb = trt.Builder(l)\nb.max_workspace_size = 5\nconfig = b.create_builder_config()\n"
    )
    assert rewritten(source, tmp_path) == source


@pytest.mark.parametrize("to", [10, 11])
def test_flags_are_set_on_the_configuration_as_long_as_there_are_flags(to: int, tmp_path: Path) -> None:
    old = "builder.int8_mode = True\nbuilder.int8_calibrator = mine\nconfig.set_flag(trt.BuilderFlag.STRICT_TYPES)\n"
    new = (
        "config.set_flag(trt.BuilderFlag.INT8)\nconfig.int8_calibrator = mine\n"
        "config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)\n"
    )
    assert rewritten(HEAD + old, tmp_path, to) == HEAD + (new if to == 10 else old)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("to", [10, 11])
def test_every_comment_stays_and_the_result_is_python(path: Path, to: int) -> None:
    def comments(text: str) -> list[str]:
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        return [token.string for token in tokens if token.type == tokenize.COMMENT]

    text = migrate(path, to).content.decode()
    compile(text, path.name, "exec")
    assert comments(text) == comments(path.read_text())


_LINES = (
    *("import tensorrt as trt", "builder = trt.Builder(trt.Logger())", "x = [1,\t2 ,\n   3]", "# a comment  ", ""),
    *("    ", "if x :\n\tpass # tab", "s = '''\n  trt.UffParser\n'''", "y=x;z =(x)", "d = {**{}, 'ä': \"ö\"}"),
    *("if 1 and \\\n   2: pass", "\f"),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.sampled_from(_LINES), max_size=8), end=st.sampled_from(["\n", "\r\n"]), last=st.booleans())
def test_a_script_without_findings_stays_byte_for_byte(tmp_path: Path, lines: list[str], end: str, last: bool) -> None:
    content = (end.join("\n".join(lines).split("\n")) + end * last).encode()
    path = tmp_path / "same.py"
    path.write_bytes(content)
    try:
        compile(content, "same.py", "exec")
    except SyntaxError:
        return
    found = migrate(path, 11)
    assert found.rows == [] and found.content == content


def test_what_is_written_by_hand_is_a_use_that_is_known() -> None:
    assert _BY_HAND.keys() <= changes_until(11).keys()
