"""`trtlab doctor --sandbox`: attack the sandboxes that run submissions, and say what held."""

import sys
from pathlib import Path

from helpers.tools.signals import clean_ends
from solutions.sandbox import KINDS, chosen, trouble
from solutions.sandbox.scratch import entered
from solutions.sandbox.trial import gpu_inside, trial
from trtcpu.errors import LabError


def attack_sandboxes() -> None:
    """Try six ways out of each sandbox that works here.

    Raises:
        LabError: none works, or one did not hold what it promises.
    """
    failed = []
    for kind in KINDS:
        if reason := trouble(kind):
            print(f"{kind}: does not work here: {reason}")
            continue
        for name, held, seen in trial(kind):
            print(f"{kind} · {'held' if held else 'NOT HELD'} · {name}: {seen}", flush=True)
            failed += [] if held else [f"{kind} · {name}"]
        if Path("/dev/nvidiactl").exists():
            unusable = gpu_inside(kind)
            print(f"{kind} · the GPU inside: {unusable or 'CUDA works'}")
            failed += [f"{kind} · the GPU cannot be used inside"] if unusable else []
    print(f"submissions run in: {chosen()}")
    if failed:
        raise LabError(f"not held: {'; '.join(failed)}")


if __name__ == "__main__":
    with clean_ends(), entered():
        try:
            attack_sandboxes()
        except LabError as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(2)
