"""Every numeric option of every command refuses what cannot be meant: one line, nothing written."""

import inspect
import itertools
import typing
from pathlib import Path

import pytest
import typer

from trtcpu.errors import InputError
from trtlab.cli import app
from trtlab.commands.multivalue import integers
from trtlab.commands.numbers import check_number

COMMANDS = typer.main.get_command(app).commands
MAY_BE_ZERO = {"opt_level", "warmup"}
ABSURD = ["-1", str(10**30), "9" * 400, "9" * 4500, "nan", "inf", "1e999", "many", ""]


def numeric_options() -> list[tuple[str, str, str, type]]:
    """Return command, flag, parameter's name and type of each option that a signature says is a number."""
    found = []
    for info in app.registered_commands:
        name = info.name or info.callback.__name__
        flags = {parameter.name: parameter.opts[0] for parameter in COMMANDS[name].params}
        for parameter in inspect.signature(info.callback, eval_str=True).parameters.values():
            kind = (typing.get_args(parameter.annotation) or (parameter.annotation,))[0]
            kinds = {kind, *typing.get_args(kind)} & {int, float}
            found += [(name, flags[parameter.name], parameter.name, each) for each in kinds]
    return found


OPTIONS = numeric_options()


def arguments(command: str, flag: str, value: str) -> list[str]:
    """Return a call with every required option and the number."""
    required = [parameter.opts[0] for parameter in COMMANDS[command].params if parameter.required]
    given = [[option, "none/missing"] if option.startswith("-") else ["none/missing"] for option in required]
    return [command, *itertools.chain(*given), flag, value]


@pytest.mark.parametrize(
    "command, flag, name, kind", OPTIONS, ids=[f"{command} {flag}" for command, flag, *_ in OPTIONS]
)
def test_an_absurd_number_is_one_line_that_names_the_option(
    trtlab, tmp_path: Path, monkeypatch, command: str, flag: str, name: str, kind: type
) -> None:
    monkeypatch.chdir(tmp_path)
    for value in ABSURD if kind is float or name in MAY_BE_ZERO else [*ABSURD, "0"]:
        code, out, err = trtlab(*arguments(command, flag, value))
        assert code == 2 and out == "" and err.count("\n") == 1, (value, code, err)
        assert err.startswith("error: ") and flag in err and len(err) < 300, (value, err)
    assert not list(tmp_path.iterdir())


def test_the_walk_finds_the_numbers_that_are_known() -> None:
    found = {(command, flag) for command, flag, *_ in OPTIONS}
    assert {("build", "--max-batch"), ("bench", "--duration"), ("latency-budget", "--link-mbps")} <= found
    assert len(found) > 30


@pytest.mark.parametrize("value", ["0", "-1", str(10**30), "9" * 400, "nan", "1.5", "many"])
def test_a_list_of_numbers_is_held_to_the_same(value: str) -> None:
    with pytest.raises(InputError, match="--batch-sizes"):
        integers(["1", value], "--batch-sizes")


@pytest.mark.parametrize("value, least", [(1, 1), (10**9, 1), (0.0, 0), (1e9, 0)])
def test_the_bounds_themselves_are_allowed(value: float, least: int) -> None:
    check_number(value, "--n", least)


@pytest.mark.parametrize("words", [["nothing"], ["export"], ["bench", "--unknown"], ["infer", "--topk"]])
def test_a_call_that_cannot_be_read_is_one_line(trtlab, words: list[str]) -> None:
    code, out, err = trtlab(*words)
    assert code == 2 and out == "" and err.startswith("error: ") and err.count("\n") == 1 and "--help" in err


def test_trtlab_alone_shows_its_help(trtlab) -> None:
    code, out, err = trtlab()
    assert code in (0, 2) and "export" in out + err and "error:" not in err
