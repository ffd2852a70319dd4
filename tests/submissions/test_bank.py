"""The bank itself: every entry can be graded, every claim is lost by one, and what needs seconds is decided here.

The whole bank runs with `make submissions`.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import typer

from helpers.course.steps import CELLS
from solutions.checks.core.asked import points_of
from tests.submissions import __main__ as command
from tests.submissions import bank, execution
from tests.submissions.bank import ROOT, Entry, load_bank, patched_cells, sampled
from trtcpu.api.version import API_VARIABLE

BANK = load_bank()
SEED = "2026"
"""The quick part is decided with one seed here, with many by `make seeds`."""


def test_the_bank_is_as_large_as_promised() -> None:
    kinds = [entry.kind for entry in BANK]
    assert kinds.count("wrong") >= 60 and kinds.count("right") >= 15


@pytest.mark.parametrize("entry", BANK, ids=[entry.title for entry in BANK])
def test_each_patch_fits_its_notebook_and_names_claims_of_its_cells(entry: Entry) -> None:
    for cell in patched_cells(entry):
        compile(cell.source, entry.title, "exec")
    decided = {claim.name for cell in entry.graded for claim in points_of(cell)}
    assert set(entry.loses or ()) <= decided


def test_a_step_that_the_bank_has_not_is_named_with_those_that_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit, match="2"):
        command.main(step="2_fp16")
    assert capsys.readouterr().err.startswith("error: there is no step '2_fp16'; the steps are 01_export, 02_fp16, ")


def test_entries_for_another_api_run_in_a_process_that_speaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(API_VARIABLE, "10")
    with execution.speaking(11):
        command = [sys.executable, "-c", "from trtcpu.api.version import API; print(API.major)"]
        assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout == "11\n"
    assert os.environ[API_VARIABLE] == "10"
    assert {(one.step, one.kind) for one in BANK if one.api == 11} >= {("02_fp16", "right"), ("04_int8", "right")}


@pytest.mark.slow
def test_beside_real_tensorrt_the_bank_is_imported_without_openvino(tmp_path: Path) -> None:
    stand_in = "from unittest.mock import MagicMock\n__version__ = '8.6.0'\ndef __getattr__(name): return MagicMock()\n"
    (tmp_path / "pycuda").mkdir()
    for name in ("tensorrt.py", "pycuda/__init__.py", "pycuda/autoprimaryctx.py", "pycuda/driver.py"):
        (tmp_path / name).write_text(stand_in)
    modules = [f"tests.submissions.{path.stem}" for path in sorted(Path(__file__).parent.glob("[!_]*.py"))]
    code = f"import sys; sys.modules['openvino'] = None; import helpers.engine.backend, {', '.join(modules)}"
    command = [sys.executable, "-c", f"{code}; print(helpers.engine.backend.ENGINE)"]
    search = os.pathsep.join([str(tmp_path), str(ROOT)])
    environment = {**os.environ, "TRT_LAB_ENGINE": "tensorrt", "TRT_LAB_CUDA": "pycuda", "PYTHONPATH": search}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("tensorrt\n", 0), done.stderr[-2000:]


def test_real_tensorrt_has_only_the_entries_for_its_api(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bank, "ENGINE", "tensorrt")
    monkeypatch.setattr(bank, "API", 11)
    assert not [one.title for one in load_bank("02_fp16", extremes=False) if one.api != 11]


def test_an_entry_for_an_api_that_there_is_not_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "02_fp16.yaml").write_text("[{name: odd, about: '', cell: build, code: x, loses: [], api: 9}]")
    monkeypatch.setattr(bank, "_FOLDER", tmp_path)
    with pytest.raises(ValueError, match="odd: api is 9; choose 10 or 11"):
        load_bank("02_fp16")


def test_every_claim_is_lost_by_a_wrong_submission() -> None:
    lost = {name for entry in BANK if entry.kind == "wrong" for name in entry.loses}
    assert [claim.name for cell in CELLS for claim in points_of(cell) if claim.name not in lost] == []


def test_a_sample_has_so_many_of_each_step_a_third_of_them_right_and_is_the_same_again() -> None:
    drawn = sampled(BANK, 12, seed=7)
    assert drawn == [entry for entry in BANK if entry in drawn] == sampled(BANK, 12, seed=7)
    assert drawn != sampled(BANK, 12, seed=8)
    for step in {entry.step for entry in BANK}:
        there = sum(entry.step == step and entry.loses == () for entry in BANK)
        kinds = Counter(entry.loses == () for entry in drawn if entry.step == step)
        assert kinds[True] == min(4, there) and kinds[True] + kinds[False] == 12


@pytest.mark.slow
def test_a_quick_part_of_the_bank_that_loses_every_claim_is_decided_rightly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.submissions", "--quick", "--cover", "--seed", SEED]
    command += ["--out", str(tmp_path / "bank.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    figures = json.loads((tmp_path / "bank.json").read_text())
    mistakes = ("accepted_wrong", "rejected_right", "lost_by_mistake", "failed_checks")
    assert {key: figures[key] for key in mistakes} == dict.fromkeys(mistakes, 0)
    quick = [entry for entry in BANK if entry.quick]
    lost = {name for entry in quick for name in entry.loses or ()}
    assert {name for row in figures["entries"] for name in row["lost"]} == lost
    assert figures["right"] == sum(entry.kind == "right" for entry in quick) > 8
