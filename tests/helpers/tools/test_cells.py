"""A cell's code in IPython's own shell, whose tracebacks keep its lines cut at other characters than Python's."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ipykernel.compiler import XCachingCompiler
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from helpers.checks.probes.answer import Notebook
from helpers.checks.probes.student import Student
from helpers.course.artifacts import keep_definition, load_definition
from helpers.tools.cells import source_of

pytestmark = pytest.mark.filterwarnings("ignore")  # IPython's own

SQUARE = "import math\ndef square(x):\n    text = 'left{0}right' # note{0}\n    return math.prod([x, x])\n"
ENDS = ["\r\n", "\r"]
SEPARATORS = ["\u2028", "\u2029", "\x85", "\f", "\v", "\x1c", "\x1d", "\x1e"]
CELLS = {
    **{repr(end): SQUARE.format("").replace("\n", end) for end in ENDS},
    **{repr(separator): SQUARE.format(separator) for separator in SEPARATORS},
    "a magic": f"%time 1\n{SQUARE.format(SEPARATORS[0])}".replace("\n", "\r\n"),
    "a magic of the cell": f"%%capture\n{SQUARE.format('')}",
}


@pytest.fixture(params=["IPython", "Jupyter"])
def shell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """A shell that names its cells as IPython's or as the kernel's does, with a square that was right before."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    if request.param == "Jupyter":
        monkeypatch.setattr(InteractiveShell, "compiler_class", XCachingCompiler)
    made = InteractiveShell(config=Config({"HistoryManager": {"hist_file": ":memory:"}}))
    assert made.run_cell("def square(x):\n    return 0\n", store_history=True).success
    yield made
    made.history_manager.end_session()


def _asked(shell: InteractiveShell) -> tuple[object, str]:
    reply = Student.in_process(shell.user_ns).call("called", name="square", argument=3)
    return reply.value, (reply.error or {"message": ""})["message"]


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_a_cell_that_ran_is_judged_however_its_lines_end(shell: InteractiveShell, cell: str) -> None:
    assert shell.run_cell(cell, store_history=True).success
    assert _asked(shell) == (9, "")


@pytest.mark.parametrize("end", ["\n", *ENDS])
def test_a_cell_whose_last_run_failed_is_of_an_earlier_run_however_its_lines_end(
    shell: InteractiveShell, end: str
) -> None:
    shell.run_cell(SQUARE.format("").replace("\n", end), store_history=True)
    shell.run_cell(f"raise ValueError\n{SQUARE.format('')}".replace("\n", end), store_history=True)
    assert "is of an earlier run" in _asked(shell)[1]


@pytest.mark.parametrize("separator", SEPARATORS)
def test_a_definition_is_known_as_it_was_written(shell: InteractiveShell, separator: str) -> None:
    shell.run_cell(SQUARE.format(separator), store_history=True)
    assert f"left{separator}right" in Notebook(shell.user_ns).alone("square").__code__.co_consts
    assert f"left{separator}right" in eval(source_of(shell.user_ns["square"]).split("=")[1].split("\n")[0])


def test_a_cell_with_a_magic_can_be_run_alone(shell: InteractiveShell) -> None:
    shell.run_cell(f"!true\n{SQUARE.format('')}", store_history=True)
    shell.user_ns["get_ipython"] = lambda: shell  # this shell is not the process's own
    assert Notebook(shell.user_ns).alone("square")(3) == 9


PLAIN, OTHER, FAILS = "def square(x):\n    return x * x\n", "def square(x):\n    return -1\n", "raise ValueError\n"
TIMED = "def timed(f):\n    def inner(*given):\n        return f(*given)\n    return inner\n"
WRAPPED = TIMED.replace("    def", "    @__import__('functools').wraps(f)\n    def")
RIGHT = {
    "a definition in a later text": [PLAIN, f'TEXT = """\n{OTHER}"""\n'],
    "a magic of a cell that ran before": [PLAIN, OTHER, f"%%capture\n{PLAIN}"],
    "a decorator of an earlier version's cell": [TIMED + OTHER, f"@timed\n{PLAIN}"],
    "a wrapping decorator of an earlier version's cell": [WRAPPED + OTHER, f"@timed\n{PLAIN}"],
    "another name of a function": ["def other(x):\n    return x * x\n" + OTHER, f"{OTHER}square = other\n"],
    "a value called In": [f"In = 3\n{PLAIN}"],
    "an array called In": [f"import numpy\nIn = numpy.zeros(3)\n{PLAIN}"],
}
STALE = {
    "in %%capture": [f"%%capture\n{PLAIN}", f"%%capture\n{FAILS}{PLAIN}"],
    "in %%capture before": [f"%%capture\n{PLAIN}", FAILS + PLAIN],
    "in a decorator": [WRAPPED, f"@timed\n{PLAIN}", f"{FAILS}@timed\n{PLAIN}"],
}


@pytest.mark.parametrize("cells", RIGHT.values(), ids=RIGHT)
def test_a_right_function_is_judged_whatever_other_cells_hold(shell: InteractiveShell, cells: list[str]) -> None:
    for cell in cells:
        assert shell.run_cell(cell, store_history=True).success
    assert _asked(shell) == (9, "")


@pytest.mark.parametrize("cells", STALE.values(), ids=STALE)
def test_an_earlier_run_is_told_however_the_cell_ran(shell: InteractiveShell, cells: list[str]) -> None:
    for cell in cells:
        shell.run_cell(cell, store_history=True)
    assert "is of an earlier run" in _asked(shell)[1]


@pytest.mark.parametrize("before", ["%%time\n", "%%capture\n", "%time 1\n", "!true\n"])
@pytest.mark.parametrize("after", ["# class TensorRTInference is fast", "class TensorRTInferenceToo:\n    pass"])
def test_a_class_is_kept_without_magics_whatever_runs_later(
    shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for cell in (f"{before}class TensorRTInference:\n    nine = 9\n", after):
        assert shell.run_cell(cell, store_history=True).success
    keep_definition("TensorRTInference", shell.user_ns["In"])
    assert load_definition("TensorRTInference").nine == 9
