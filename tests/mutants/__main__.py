"""Runs mutants and rewrites: `python -m tests.mutants [--step 04_int8] [--cell calibrate] [--all] [--rewrites]`.

Exit code 1 where fewer than 95 % of the mutants that are not equivalent are killed, more than 10 % are called
equivalent, or a rewrite is rejected.
"""

import functools
import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tests.submissions.execution import SETTINGS

_TABLE_WIDTH = 100


def main(
    step: Annotated[str | None, typer.Option(help="Only this step, such as 04_int8.")] = None,
    cell: Annotated[str | None, typer.Option(help="Only this TODO cell, by its grade_id.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every mutant, not a sample.")] = False,
    sample: Annotated[int, typer.Option(help="How many mutants the sample has.")] = 500,
    seed: Annotated[int, typer.Option(help="Which sample is drawn.")] = 0,
    rewrites: Annotated[bool, typer.Option(help="Only the rewrites, which must lose nothing.")] = False,
    only_mutants: Annotated[bool, typer.Option(help="Only the mutants.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="Print the ids and changes, judge nothing.")] = False,
    show: Annotated[str | None, typer.Option(help="Print the diff of the variant with this id, judge nothing.")] = None,
    workers: Annotated[int, typer.Option(help="How many run beside each other where nothing is timed.")] = 2,
    out: Annotated[Path, typer.Option(help="Results; what is decided there is not judged again.")] = Path(
        "results/mutants.json"
    ),
) -> None:
    """Judge mutants of the reference solutions, and rewrites of them, with the hidden checks."""
    os.environ.update(SETTINGS)
    from tests.mutants.rewrites import all_rewrites
    from tests.mutants.sample import stratified
    from tests.mutants.source import all_mutants

    console = Console(soft_wrap=True, highlight=False)
    console.width = max(console.width, _TABLE_WIDTH)
    mutants = [] if rewrites else [one for one in all_mutants(step) if cell in (None, one.cell)]
    variants = [] if only_mutants else [one for one in all_rewrites(step) if cell in (None, one.cell)]
    if show:
        _show(console, show, {one.id: one.diff() for one in mutants} | {one.name: one.code for one in variants})
        return
    if not all_:
        mutants = stratified(mutants, sample, seed)
    if list_:
        for one in mutants:
            console.print(f"{one.id}\n    - {one.removed}\n    + {one.added}", markup=False)
        for one in variants:
            console.print(one.name, markup=False)
        return
    about = {"step": step, "cell": cell, "sample": None if all_ else sample, "seed": seed}
    _judge(console, mutants, variants, about, workers, out)


def _show(console: Console, name: str, known: dict[str, str]) -> None:
    if name not in known:
        console.print(f"no variant {name}; --list prints their ids")
        raise typer.Exit(2)
    console.print(known[name], markup=False)


def _judge(console: Console, mutants: list, variants: list, about: dict[str, Any], workers: int, out: Path) -> None:
    from helpers.tools.files import write_json
    from tests.mutants.judging import Judge, read_decisions
    from tests.mutants.results import figures, good_enough, rejected, status
    from tests.submissions.bank import Entry

    judge = Judge(read_decisions(out), workers)
    started, by_id = time.perf_counter(), {one.id: one for one in mutants}
    waiting = [Entry(one.step, one.id, "mutant", cell=one.cell, code=one.code) for one in mutants]
    number = len(waiting) + len(variants)
    done = 0
    rewrites = functools.partial(judge.rewrites, everywhere=about["sample"] is None)
    for decide, entries in ((judge.mutants, waiting), (rewrites, variants)):
        for entry, decision in decide(entries):
            done += 1
            # After each one: what was decided survives when the run is stopped.
            write_json(out, figures(mutants, variants, judge.decisions, about))
            mutant = by_id.get(entry.name)
            word = status(mutant, decision) if mutant else "rejected" if rejected(decision) else "kept"
            why = ", ".join([*decision.lost, *decision.failed, decision.died.strip().rpartition("\n")[2]]).strip(", ")
            console.print(f"{done:>5}/{number} {word:<10} {entry.name} ({decision.seconds:.0f} s) {why}", markup=False)
    found = figures(mutants, variants, judge.decisions, about)
    write_json(out, found)
    _print(console, found, time.perf_counter() - started)
    console.print(f"Results: {out}")
    if not good_enough(found):
        raise typer.Exit(1)


def _print(console: Console, found: dict[str, Any], seconds: float) -> None:
    for name, diff in found["survived"].items():
        console.print(f"\nsurvived: {name}\n{diff}", markup=False)
    for name in found["rewrites"]["rejected"]:
        decision = found["decisions"][name]
        console.print(f"\nrejected: {name}: {decision['lost']} {decision['died']} {decision['visible']}", markup=False)
    for name in found["listed_but_killed"]:
        console.print(f"listed as equivalent, but killed: {name}", markup=False)
    table = Table("step", "mutants", "killed", "equivalent", "survived", "undecided", "killed of not equivalent")
    for name, counts in [*found["steps"].items(), ("all", found["all"])]:
        *numbers, share = counts.values()
        table.add_row(name, *map(str, numbers), "–" if share is None else f"{share:.1%}")
    console.print(table)
    rewrites = found["rewrites"]
    console.print(f"{rewrites['rewrites']} rewrites, {len(rewrites['rejected'])} rejected; {seconds:.0f} s")


if __name__ == "__main__":
    typer.run(main)
