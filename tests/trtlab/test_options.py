"""Options as they are typed: numbers that cannot be meant, several values, other spellings, and what --help shows."""

import itertools
import re
import typing
from pathlib import Path

import pytest

from tests.trtlab.shell import fails
from trtcpu.errors import InputError
from trtlab.cli import app
from trtlab.commands.spellings import our_spelling
from trtlab.timing.options import BenchOptions

SEVERAL = {"--crop", "--mean", "--std"}  # numbers in one word, which the command reads itself
MAY_BE_ZERO = {"--opt-level", "--warmup"}
ABSURD = ["-1", str(10**30), "9" * 400, "9" * 4500, "nan", "inf", "1e999", "many", ""]
COMMANDS = [name for name in app if not name.startswith("-")]
# `grade` and `regrade` have no options of their own: they become `python -m solutions.grading`.
OURS = [name for name in COMMANDS if "grade" not in name]


def numeric_options() -> list[tuple[str, str, type]]:
    found = []
    for name in OURS:
        for argument in app[name].assemble_argument_collection():
            kinds = {argument.hint, *typing.get_args(argument.hint)} & {int, float}
            if argument.parse and kinds and argument.name.startswith("--") and argument.name not in SEVERAL:
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
    fails(trtlab(*words), said)


def test_trtlab_alone_shows_its_help(trtlab) -> None:
    code, out, err = trtlab()
    assert code in (0, 2) and "export" in out + err and "error:" not in err


def read(command: str, *words: str) -> dict:
    _, bound, _ = app.parse_args([command, *words], exit_on_error=False, print_error=False)
    return bound.arguments


@pytest.mark.parametrize(
    "words",
    [
        ("--batch-sizes", "1", "4", "8"),
        ("--batch-sizes", "1,4", "8"),
        ("--batch-sizes", " 1 , 4,8,"),
        ("--batch-sizes=1", "--batch-sizes=4", "--batch-sizes", "8"),
        ("--batch_sizes", "1", "4", "8", "--limit", "60"),
    ],
)
def test_several_values_are_read_in_order(words: tuple[str, ...]) -> None:
    assert read("bench", *words)["options"] == BenchOptions((1, 4, 8), limit_s=60.0)


def test_values_may_begin_with_a_minus_and_paths_are_not_split() -> None:
    asked = read("infer", "--engine", "e", "--input", "a,b", "--mean", "-0.5", "0.5,1", "--crop", "224x160")
    assert (asked["asked"].mean, asked["asked"].crop, str(asked["input"])) == ((-0.5, 0.5, 1.0), (224, 160), "a,b")


@pytest.mark.parametrize("wrong", ["x", "1.5", "1;2", "0x4"])
def test_what_is_no_whole_number_names_the_option(trtlab, wrong: str) -> None:
    assert f"--batch-sizes takes whole numbers, found '{wrong}'" in trtlab("bench", "--batch-sizes", wrong)[2]


BUILD = {"--onnx", "--engine", "--precision", "--workspace-mb", "--opt-batch", "--min-shapes", "--calib-npy"}
OTHERS = {"--out", "--input-size", "--batch-size", "--batch-sizes"}


@pytest.mark.parametrize(
    "given, ours",
    [
        (["--workspace_mb", "64"], ["--workspace-mb", "64"]),
        (["--workspace=64"], ["--workspace-mb=64"]),
        (["--fp16"], ["--precision", "fp16"]),
        (["--fp16", "--int8"], ["--precision", "int8+fp16"]),
        (["--minShapes=a:1x3"], ["--min-shapes=a:1x3"]),
        (["--saveEngine=e.engine"], ["--engine=e.engine"]),
        (["--precision", "int8"], ["--precision", "int8"]),
        (["--unknown_option"], ["--unknown_option"]),
        (["--onnx", "a_b.onnx"], ["--onnx", "a_b.onnx"]),
    ],
)
def test_other_spellings_are_ours(given: list[str], ours: list[str]) -> None:
    assert our_spelling(given, BUILD) == ours


@pytest.mark.parametrize("known, ours", [(OTHERS, "--batch-size"), ({"--batch-sizes"}, "--batch-sizes")])
def test_one_batch_size_is_the_only_one_of_several(known: set[str], ours: str) -> None:
    assert our_spelling(["--batch_size", "8"], known) == [ours, "8"]


@pytest.mark.parametrize(
    "given, said",
    [
        (["--fp16", "--precision", "fp32"], "contradict each other; give one --precision"),
        (["--fp16", "--bf16"], "contradict each other; give one --precision"),
        (["--int8", "--tf32"], "contradict each other; give one --precision"),
        (["--batch_size", "8"], "--batch_size is not an option here.*--opt-batch and --max-batch"),
    ],
)
def test_what_a_build_cannot_mean_is_an_error(given: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        our_spelling(given, BUILD)


def _squeezed(text: str) -> str:
    """Return the text without white space and the lines of Rich's boxes, which break it anywhere."""
    return re.sub(r"[\s│]", "", text)


@pytest.mark.parametrize("name", OURS)
def test_every_option_has_a_help_that_is_shown_whole(name: str, trtlab) -> None:
    _, shown, _ = trtlab(name, "--help")
    for argument in app[name].assemble_argument_collection(parse_docstring=True):
        if argument.parse and argument.show:
            assert argument.name in shown and argument.parameter.help, argument.name
            assert _squeezed(argument.parameter.help) in _squeezed(shown)
    assert app[name].help or "Example: trtlab" in shown or name == "doctor"


def test_the_list_of_commands_says_what_each_does(trtlab) -> None:
    _, shown, _ = trtlab("--help")
    assert all(re.search(rf"│ {name} +[A-Z]", shown) for name in COMMANDS), shown
