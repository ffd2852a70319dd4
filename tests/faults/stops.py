"""Grading that is killed, told to stop, or started twice ends with the grades of the undisturbed run."""

import random
import signal
import time

from tests.faults.course import STUDENTS, Copies, Run, grades_in, require

SEED = 14


def killed(copies: Copies, number: int) -> str:
    """SIGKILL at the `number`th random moment of a run; a second one goes on."""
    share = _share(number)
    root = copies.copy(graded=False)
    first = Run(root)
    first.until_locked()
    time.sleep(share * copies.seconds)
    first.process.kill()
    first.process.wait()
    whole = first.out.count(" · graded")
    Run(root).graded()
    copies.require_same(root)
    return f"killed after {share * copies.seconds:.1f} s with {whole} submissions graded"


def _share(number: int) -> float:
    draws = random.Random(SEED)
    return [draws.uniform(0.02, 0.98) for _ in range(number + 1)][number]


def told_to_stop(copies: Copies, name: str) -> str:
    """A signal to the grading process while it runs a notebook: a clean end, and a second run goes on."""
    number, root = getattr(signal, name), copies.copy(graded=False)
    first = Run(root)
    first.until(" · graded")
    time.sleep(0.5)
    first.process.send_signal(number)
    code, said = first.ended(), first.err
    require(code == 128 + number, f"exit code {code} in place of {128 + number}: {said[-300:]}")
    require(said == f"interrupted by {name}; run the same command again to go on\n", f"it said {said[-300:]!r}")
    require(grades_in(root) == [None, None], "grades were written")
    Run(root).graded()
    copies.require_same(root)
    return said.strip()


def two_at_once(copies: Copies) -> str:
    """A second run while one grades says who does, and ends; the first one is not disturbed."""
    root = copies.copy(graded=False)
    first = Run(root)
    first.until_locked()
    said = Run(root).refused(f"process {first.process.pid} on ", "since ")
    first.graded()
    copies.require_same(root)
    return said


def waits(copies: Copies) -> str:
    """With --wait the second run waits, and finds everything graded."""
    root = copies.copy(graded=False)
    first = Run(root)
    first.until_locked()
    second = Run(root, ("--wait",))
    second.until("waiting for it")
    first.graded()
    second.graded()
    require(second.out.count("unchanged") == STUDENTS, "the second run graded again")
    copies.require_same(root)
    return "waited for the first run, graded nothing again"
