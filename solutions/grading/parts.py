"""The part of a class that a command's options name."""

from solutions.grading.submissions import Submission
from trtcpu.errors import InputError


def chosen_part(
    everybody: list[Submission], all_steps: list[str], students: list[str] | None, steps: list[str] | None
) -> tuple[list[Submission], list[str]]:
    """Return the submissions and the steps that were asked for; all where nothing was.

    Raises:
        InputError: there is no such student or step.
    """
    names = {found.student for found in everybody}
    if unknown := [name for name in students or [] if name not in names]:
        raise InputError(f"submitted/ has no folder {unknown[0]!r}")
    if unknown := [name for name in steps or [] if name not in all_steps]:
        raise InputError(f"there is no step {unknown[0]!r}; the steps are {', '.join(all_steps)}")
    chosen = [found for found in everybody if not students or found.student in students]
    for submission in chosen:
        submission.steps = [name for name in submission.steps if not steps or name in steps]
    return chosen, [name for name in all_steps if not steps or name in steps]
