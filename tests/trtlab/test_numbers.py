"""Every numeric option of every command refuses what cannot be meant: one line, nothing written."""

import itertools
import typing
from pathlib import Path

import pytest

from trtlab.cli import app

MAY_BE_ZERO = {"--opt-level", "--warmup"}
ABSURD = ["-1", str(10**30), "9" * 400, "9" * 4500, "nan", "inf", "1e999", "many", ""]
COMMANDS = [name for name in app if not name.startswith("-") and "grade" not in name]


def numeric_options() -> list[tuple[str, str, type]]:
    found = []
    for name in COMMANDS:
        for argument in app[name].assemble_argument_collection():
            kinds = {argument.hint, *typing.get_args(argument.hint)} & {int, float}
            if argument.parse and kinds and argument.name.startswith("--") and argument.name not in ("--mean", "--std"):
                found.append((name, argument.name, kinds.pop()))
    return found


OPTIONS = numeric_options()


def arguments(command: str, flag: str, value: str) -> list[str]:
    needed = [one.name for one in app[command].assemble_argument_collection() if one.required]
    given = [[name, "none/missing"] if name.startswith("-") else ["none/missing"] for name in needed]
    return [command, *itertools.chain(*given), f"{flag}={value}"]


@pytest.mark.parametrize("command, flag, kind", OPTIONS, ids=[f"{command} {flag}" for command, flag, _ in OPTIONS])
def test_an_absurd_number_is_one_line_that_names_the_option(
    trtlab, tmp_path: Path, monkeypatch, command: str, flag: str, kind: type
) -> None:
    monkeypatch.chdir(tmp_path)
    for value in ABSURD if kind is float or flag in MAY_BE_ZERO else [*ABSURD, "0", "2.5"]:
        code, out, err = trtlab(*arguments(command, flag, value))
        assert code == 2 and out == "" and err.count("\n") == 1, (value, code, err)
        assert err.startswith("error: ") and flag in err and len(err) < 300, (value, err)
    assert not list(tmp_path.iterdir())


def test_the_walk_finds_the_numbers_that_are_known() -> None:
    found = {(command, flag) for command, flag, _ in OPTIONS}
    assert {("build", "--max-batch"), ("bench", "--duration"), ("latency-budget", "--link-mbps")} <= found
    assert {("bench", "--batch-sizes"), ("bench", "--streams"), ("infer", "--resize")} <= found
    assert len(found) > 40


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "--help"),
        (["export"], "--help"),
        (["bench", "--unknown"], "--help"),
        (["infer", "--topk"], "--help"),
        (["build", "--onnx", "m", "--engine", "e", "--workspce-mb", "4"], "Did you mean --workspace-mb?"),
    ],
)
def test_a_call_that_cannot_be_read_is_one_line(trtlab, words: list[str], said: str) -> None:
    code, out, err = trtlab(*words)
    assert code == 2 and out == "" and err.startswith("error: ") and err.count("\n") == 1 and said in err


def test_trtlab_alone_shows_its_help(trtlab) -> None:
    code, out, err = trtlab()
    assert code in (0, 2) and "export" in out + err and "error:" not in err
