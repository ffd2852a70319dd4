"""Runs the bank: `python -m tests.submissions [--step 02_fp16] [--name flag_forgotten] [--out submissions.json]`.

Exit code 1 where a wrong entry is accepted, a right one rejected, or a claim lost that should have been kept.
"""

import os
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from helpers.course.steps import GRADED
from tests.submissions.execution import SETTINGS


def main(
    step: Annotated[str | None, typer.Option(help="Only this step, such as 02_fp16.")] = None,
    name: Annotated[str | None, typer.Option(help="Only entries with this name.")] = None,
    quick: Annotated[bool, typer.Option(help="Only entries that are decided in seconds.")] = False,
    cover: Annotated[bool, typer.Option(help="Of the wrong ones, only as many as lose each claim once.")] = False,
    sample: Annotated[int | None, typer.Option(help="Number of entries of each step, drawn from the seed.")] = None,
    out: Annotated[Path, typer.Option(help="Where the figures are written.")] = Path("results/submissions.json"),
    messages: Annotated[
        Path | None,
        typer.Option(help="Write the pages of these steps' messages to this folder, and the bank's size to README.md."),
    ] = None,
    workers: Annotated[int, typer.Option(help="How many run beside each other where nothing is timed.")] = 2,
    sandbox: Annotated[bool, typer.Option(help="Grade each in the sandbox, by a judge, as a class is.")] = False,
    seed: Annotated[int | None, typer.Option(help="What inputs are drawn from; fresh ones if left out.")] = None,
    verbose: Annotated[bool, typer.Option(help="Show what each claim and visible check said.")] = False,
) -> None:
    """Run the bank of submissions and print wrong ones accepted, right ones rejected, claims lost by mistake."""
    if step not in (None, *GRADED):
        _refuse(f"there is no step {step!r}; the steps are {', '.join(GRADED)}")
    if sample and seed is None:
        _refuse("a sample is drawn from a seed; add --seed 1, say")
    if messages and (name or quick or sandbox or sample):
        wanted = "all of a step's entries and what visible checks said"
        _refuse(f"messages need {wanted}; leave out --name, --quick, --sample and --sandbox")
    os.environ.update(SETTINGS)
    from helpers.tools.files import write_json
    from solutions.checks.trusted.reference import offered_environment
    from tests.submissions.bank import covering, load_bank, sampled
    from tests.submissions.execution import run_all, run_entry
    from tests.submissions.verdict import Verdict, judge, summary

    console = Console(soft_wrap=True)
    chosen = [one for one in load_bank(step) if name in (None, one.name) and (one.quick or not quick)]
    chosen = covering(chosen) if cover else chosen
    chosen = sampled(chosen, sample, seed) if sample else chosen
    if not chosen:
        _refuse(f"no entry{f' named {name}' if name else ''} of {step or 'any step'} is left by these options")
    os.environ.update(offered_environment({one.step for one in chosen}))
    started = time.perf_counter()
    verdicts: dict[str, Verdict] = {}
    for entry, outcome in run_all(chosen, workers, partial(run_entry, sandboxed=sandbox, seed=seed)):
        verdicts[entry.title] = judge(entry, outcome)
        # After each one: what was decided survives when the run is stopped.
        in_order = [verdicts[one.title] for one in chosen if one.title in verdicts]
        figures = summary(in_order, time.perf_counter() - started)
        write_json(out, figures)
        _show(console, f"{len(verdicts)}/{len(chosen)}", verdicts[entry.title], verbose)
    console.print(f"\n{figures['wrong']} wrong and {figures['right']} right entries in {figures['seconds']:.0f} s")
    for key in ("accepted_wrong", "rejected_right", "lost_by_mistake", "failed_checks"):
        console.print(f"  {key.replace('_', ' '):<18} {figures[key]}")
    console.print(f"  {figures['seen_by_visible_checks']} of the wrong ones were seen by a visible check; {out}")
    for verdict in verdicts.values():
        if not verdict.right:  # once more, where the end of a long run is all that is read
            _show(console, "", verdict, verbose)
    if messages:
        _write_messages(console, messages, figures)
    if not all(verdict.right for verdict in verdicts.values()):
        raise typer.Exit(1)


def _refuse(why: str) -> NoReturn:
    typer.echo(f"error: {why}", err=True)
    raise typer.Exit(2)


def _write_messages(console: Console, folder: Path, figures: dict[str, Any]) -> None:
    from helpers.tools.files import atomic_write
    from tests.submissions import size
    from tests.submissions.messages import claims_without_message, rows_of, write_messages

    write_messages(folder, rows_of(figures))
    if folder.resolve() == size.MESSAGES:
        atomic_write(size.PAGE, size.with_size(size.PAGE.read_text()))
    if never := claims_without_message(figures):
        console.print(f"[red]no entry fails: {', '.join(never)}[/]")
        raise typer.Exit(1)


def _show(console: Console, count: str, verdict: Any, verbose: bool) -> None:
    entry, outcome = verdict.entry, verdict.outcome
    mark = "[green]✓[/]" if verdict.right else "[red]✗[/]"
    lost = ", ".join(sorted(outcome.lost)) or "nothing"
    console.print(f"{mark} {count:>7} {entry.title} ({entry.kind}, {outcome.seconds:.0f} s) lost {lost}")
    for text, names in (
        ("kept, but must be lost", verdict.kept_wrongly),
        ("lost, but must be kept", verdict.lost_wrongly),
        ("failed", verdict.failed),
    ):
        if names:
            console.print(f"          [red]{text}: {', '.join(names)}[/]")
    if verbose or not verdict.right:
        for error in outcome.errors:
            console.print(f"          {error}", markup=False)
        for claim in sorted(outcome.lost):
            console.print(f"          {claim}: {outcome.claims[claim]}", markup=False)
    if verbose:
        for text in outcome.visible.values():
            console.print(text, markup=False)


if __name__ == "__main__":
    typer.run(main)
