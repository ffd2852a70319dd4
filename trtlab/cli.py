"""`trtlab`: the lab's pipeline from a shell.

Exit codes: 0 done, 1 a bug of ours (with its traceback), 2 wrong input (one line says what and what to do),
128 + n stopped by signal n (130: Ctrl-C).
"""

import os
import re
import sys
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console
from rich.text import Text

from helpers.tools.signals import clean_ends
from trtcpu.errors import InputError, LabError
from trtlab.commands import budget, course, images, measure, migrate, models, report
from trtlab.commands.spellings import our_spelling


def _shown(default: Any) -> str | None:
    """Return a default as the help shows it; None if there is nothing to show."""
    if default in (None, (), False):
        return None
    values = default if isinstance(default, tuple) else (default,)
    return " ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


def _keep_inputs(written: tuple[str, ...], **given: Any) -> None:
    """Refuse to write over a file that the same command reads; `written` names the options that are written to."""
    for options in list(filter(is_dataclass, given.values())):
        given |= vars(options)
    values = {name: value if isinstance(value, tuple) else (value,) for name, value in given.items()}
    texts = [(name, one) for name, several in values.items() for one in several if isinstance(one, str | Path)]
    files = [(name, path) for name, path in texts if os.path.isfile(path)]
    for name, path in files:
        if name in written and any(other != name and os.path.samefile(path, read) for other, read in files):
            option = name.replace("_", "-")
            raise InputError(f"--{option} {path} is a file that the command reads; name another one to write")


app = App(
    name="trtlab",
    help="Optimise a PyTorch or ONNX model with TensorRT: export, build, measure, compare, report.",
    default_parameter=Parameter(consume_multiple=True, negative=(), show_default=_shown),
    version_flags=(),
    help_flags=("--help",),
)
_COMMANDS = (
    *(models.doctor, models.export, models.build),
    *(images.calib_data, images.infer, images.compare, images.evaluate),
    *(measure.bench, measure.trtexec, measure.parse_log, measure.profile),
    *(images.sensitivity, budget.latency_budget, report.report, report.visualize, report.run, migrate.migrate),
)
_WRITTEN = {models.build: ("engine", "calib_cache")}
for _place, _command in enumerate(_COMMANDS):
    _kept = partial(_keep_inputs, _WRITTEN.get(_command, ("out", "output", "log")))
    app.command(_command, sort_key=_place, validator=_kept)
for _command in (course.grade, course.grade_one, course.regrade):
    app.command(_command, help_flags=(), sort_key=len(_COMMANDS))
_PASSED_ON = ("trtexec", "grade", "grade-one", "regrade")


def main() -> None:
    """Run the command line; turn the user's errors into one line and exit code 2, signals into clean ends."""
    with clean_ends():
        try:
            app(_ours(sys.argv[1:]), exit_on_error=False, print_error=False)
        except LabError as error:
            _fail(str(error))
        except CycloptsError as error:
            command = " ".join(("trtlab", *(error.command_chain or ())))
            message = str(error).rstrip(".")
            _fail(f"{message[:1].lower()}{message[1:]}; see {command} --help")
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and "can't allocate memory" not in str(error):  # PyTorch's words
                raise
            known = str(error).partition("\n")[0] or "no more is known"
            _fail(f"this needs more memory than there is ({known}); choose a smaller batch or size")


def _ours(words: list[str]) -> list[str]:
    """Spell a command's options as ours, unless they are another program's."""
    if not words or words[0].startswith("-") or words[0] not in app or words[0] in _PASSED_ON:
        return words
    arguments = app[words[0]].assemble_argument_collection()
    return [words[0], *our_spelling(words[1:], {name for argument in arguments for name in argument.names})]


def _fail(reason: str) -> NoReturn:
    # of a number too long to read, its beginning
    reason = re.sub(r"\d{40,}", lambda digits: f"{digits[0][:5]}… ({len(digits[0])} digits)", reason)
    text = Text.assemble(("error:", "bold red"), " ", " ".join(reason.split()))
    Console(stderr=True, soft_wrap=True, highlight=False).print(text)
    sys.exit(2)
