"""Functions of a notebook under another version of the API; here it is the one that every copy speaks."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.engine.backend import trt
from helpers.toys import other_api
from helpers.toys.other_api import under_api
from trtcpu.errors import InputError

CELL = """
def names_there(factor):
    return {"version": trt.__version__, "twice": int(np.array(NUMBER) * factor), "flags": hasattr(trt, "BuilderFlag")}


def fails():
    raise ArithmeticError("nothing to build")
"""
OWN = int(trt.__version__.partition(".")[0])
pytestmark = pytest.mark.skipif("cpu" not in trt.__version__, reason="the CPU engine speaks more than one version")


@pytest.fixture
def cell(tmp_path: Path) -> dict[str, Callable[..., Any]]:
    """The functions of a cell whose source Python can find, as it finds a notebook's."""
    (path := tmp_path / "cell.py").write_text(CELL)
    names: dict[str, Any] = {}
    exec(compile(CELL, str(path), "exec"), names)
    return names


def test_a_cell_runs_there_with_the_engine_of_that_version(cell: dict[str, Callable[..., Any]]) -> None:
    found = under_api(OWN, [cell["names_there"]], "names_there(2)", {"NUMBER": 21})
    assert found["value"] == {"version": found["version"], "twice": 42, "flags": True}
    assert found["version"].startswith(f"{OWN}.")


def test_an_error_there_is_named_with_its_last_line(cell: dict[str, Callable[..., Any]]) -> None:
    with pytest.raises(InputError, match="ArithmeticError: nothing to build"):
        under_api(OWN, [cell["fails"]], "fails()", {})


def test_a_version_that_no_engine_speaks_is_told(cell: dict[str, Callable[..., Any]]) -> None:
    with pytest.raises(InputError, match="under TensorRT 7"):
        under_api(7, [cell["names_there"]], "names_there(2)", {"NUMBER": 1})


def test_with_real_tensorrt_there_is_the_installed_version_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helpers.engine.backend.ENGINE", "tensorrt")
    monkeypatch.setattr(other_api.subprocess, "run", lambda *_, **__: pytest.fail(f"{sys.executable} was started"))
    with pytest.raises(InputError, match="its API is the one there is"):
        under_api(11, [], "1", {})
