"""Options as other courses and trtexec spell them: --saveEngine, --fp16, --minShapes, --workspace are understood.

Underscores for hyphens are the library's own.
"""

import re

from trtcpu.errors import InputError

_PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "int8")
_OTHER_NAMES = {"--save-engine": "--engine", "--workspace": "--workspace-mb", "--batch": "--batch-size"}
_HINTS = {"--batch-size": "--opt-batch and --max-batch (or --shapes)", "--batch": "--opt-batch and --max-batch"}
_CAPITAL = re.compile(r"(?<=[a-z0-9])[A-Z]")


def our_spelling(args: list[str], known: set[str]) -> list[str]:
    """Return the arguments with every flag that is not in `known` spelled as the one that is.

    Raises:
        InputError: precisions that contradict each other, or a batch where the command takes a range.
    """
    precisions = [name for name in _PRECISIONS if f"--{name}" in args and f"--{name}" not in known]
    if not precisions or "--precision" not in known:
        return [_spelled(argument, known) for argument in args]
    rest = [_spelled(argument, known) for argument in args if argument[2:] not in precisions]
    given = next((argument for argument in rest if argument.partition("=")[0] == "--precision"), None)
    if given is not None or set(precisions) not in ({"int8", "fp16"}, {precisions[0]}):
        both = " and ".join(f"--{name}" for name in precisions)
        raise InputError(f"{both}{' and --precision' if given else ''} contradict each other; give one --precision")
    return [*rest, "--precision", "int8+fp16" if len(precisions) > 1 else precisions[0]]


def _spelled(argument: str, known: set[str]) -> str:
    flag, equals, value = argument.partition("=")
    if not flag.startswith("--") or flag in known:
        return argument
    ours = _CAPITAL.sub(lambda capital: "-" + capital[0].lower(), flag).replace("_", "-")
    ours = next((name for name in (ours, _OTHER_NAMES.get(ours, ours), f"{ours}s") if name in known), ours)
    if ours not in known and ours in _HINTS and "--opt-batch" in known:
        raise InputError(f"{flag} is not an option here: an engine takes a range of batches; give {_HINTS[ours]}")
    return ours + equals + value if ours in known else argument
