"""Reference artifacts: made once, by whichever process comes first, and never taken for another version's."""

import importlib
import multiprocessing
from pathlib import Path

import pytest

from solutions.checks.trusted import stages
from solutions.checks.trusted.stages import Reference, Stage
from trtcpu.errors import InputError


def _first(reference: Reference, folder: Path) -> None:
    with (reference.root.parent / "made.txt").open("a") as made:
        made.write("first\n")
    (folder / "first.txt").write_text("1")


def _second(reference: Reference, folder: Path) -> None:
    (folder / "second.txt").write_text(reference.path("first.txt").read_text() + "2")
    (folder / "beside.txt").write_text("3")


STAGES = (Stage(("second.txt", "beside.txt"), ("first.txt",), _second), Stage(("first.txt",), (), _first))


def _reference(folder: Path, options: str = "") -> Reference:
    return Reference(folder / "root", STAGES, options)


def test_an_artifact_is_made_with_what_it_needs_and_then_kept(tmp_path: Path) -> None:
    reference = _reference(tmp_path)
    assert not reference.is_made("second.txt")
    assert reference.bytes("second.txt") == b"12" and reference.bytes("beside.txt") == b"3"
    assert _reference(tmp_path).is_made("beside.txt") and _reference(tmp_path).path("first.txt").is_file()
    assert (tmp_path / "made.txt").read_text() == "first\n"


def test_a_folder_that_cannot_be_made_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("a file")
    with pytest.raises(InputError, match=r"cannot make .*root: File exists; TRT_LAB_REFERENCE names another folder"):
        _reference(tmp_path).path("first.txt")


def _ask(folder: Path) -> None:
    _reference(folder).path("second.txt")


def test_two_processes_make_it_once(tmp_path: Path) -> None:
    processes = [multiprocessing.get_context("fork").Process(target=_ask, args=(tmp_path,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert (tmp_path / "made.txt").read_text() == "first\n"


def test_a_change_of_code_anywhere_below_makes_it_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "helpers"
    package.mkdir()
    for name, source in (("__init__", ""), ("stage_code", "from helpers import deep_code\n"), ("deep_code", "A = 1\n")):
        (package / f"{name}.py").write_text(source)
    monkeypatch.setattr(stages, "_PROJECT", tmp_path)
    before = stages._code_digest.__wrapped__(str(package / "stage_code.py"))
    assert stages._code_digest.__wrapped__(str(package / "stage_code.py")) == before
    (package / "deep_code.py").write_text("A = 2\n")
    assert stages._code_digest.__wrapped__(str(package / "stage_code.py")) != before


def test_every_need_of_the_reference_is_made_by_a_stage() -> None:
    reference = importlib.import_module("solutions.checks.trusted.reference")
    made = [name for stage in reference.STAGES for name in stage.makes]
    assert len(set(made)) == len(made)
    assert {need for stage in reference.STAGES for need in stage.needs} <= set(made)
