"""Which sandbox this machine has, and the command that starts a process in it."""

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from solutions.sandbox import bubblewrap, outside
from solutions.sandbox.room import STANDARD, Limits, Room, environment_of, prepare
from trtcpu.errors import LabError

KINDS = ("bubblewrap", "landlock")
VARIABLE = "TRT_LAB_SANDBOX"
_NONE = "none"


def chosen(unsafe: bool = False) -> str:
    """Return the strongest sandbox that works here, or the one that TRT_LAB_SANDBOX names; "none" only if `unsafe`.

    Raises:
        LabError: none works and `unsafe` was not said, or the one named is unknown or does not work.
    """
    asked = os.environ.get(VARIABLE, "")
    if asked and asked not in (*KINDS, _NONE):
        raise LabError(f"{VARIABLE}={asked} is not known; the sandboxes are {', '.join(KINDS)}")
    kinds = [kind for kind in KINDS if asked in ("", kind)]
    reasons = {kind: trouble(kind) for kind in kinds}
    if works := [kind for kind, reason in reasons.items() if not reason]:
        return works[0]
    if unsafe and asked in ("", _NONE):
        return _NONE
    said = "; ".join(f"{kind}: {reason}" for kind, reason in reasons.items()) or f"{VARIABLE}={asked}"
    raise LabError(
        f"submissions are strangers' code, and no sandbox works here ({said}); trtlab doctor --sandbox says more, "
        "--unsafe-no-sandbox grades without one"
    )


@functools.cache
def trouble(kind: str) -> str:
    """Return why a sandbox does not work on this machine, in one line; empty where it does."""
    if not sys.platform.startswith("linux"):
        return f"{sys.platform} has none"
    if kind == "bubblewrap" and bubblewrap.binary() is None:
        return "bwrap is not installed"
    with tempfile.TemporaryDirectory(prefix="trtlab-") as folder:
        argv, environment = command(kind, [sys.executable, "-I", "-S", "-c", "print(1)"], Room(Path(folder)))
        try:
            done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired) as error:
            return " ".join(str(error).split())[:200]
    if done.returncode == 0 and done.stdout == "1\n":
        return ""
    return (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1][:200]


def command(kind: str, argv: list[str], room: Room, limits: Limits = STANDARD) -> tuple[list[str], dict[str, str]]:
    """Return the command and the whole environment that run `argv` in a sandbox of `kind`; makes the scratch.

    For whoever starts the process itself, such as a kernel manager: not from a thread that ends before the process, as
    the process would end with it. `Watch` then holds the limits.
    """
    prepare(room)
    environment = environment_of(room)
    if kind == "bubblewrap":
        return bubblewrap.command(argv, room, limits), environment
    return outside.command(kind, argv, room, limits, environment), environment
