"""`trtlab run`: every stage in order, each shown with its seconds, and the headline numbers at the end."""

import contextlib
import functools
import time
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape

from helpers.engine.backend import DEVICE, WHY_CPU
from trtcpu.errors import EngineError
from trtlab.report.findings import contradiction, deploy, failure, headline
from trtlab.report.folder import load_results
from trtlab.report.results import Results
from trtlab.running.recipe import Recipe
from trtlab.running.run_options import RunOptions
from trtlab.running.stages import Report, exclusive, run_stages
from trtlab.versions import versions


def run(options: RunOptions, console: Console) -> Results:
    """Run every stage into `options.out`, skipping what was done before, and print the headline numbers.

    Raises:
        LabError: bad options or data, an engine that cannot be built or run, a folder that cannot be written to.
        EngineError: everything ran, but a check of an engine failed; the report says which.
    """
    recipe = Recipe(options)
    options = recipe.options
    kind = "quick" if options.quick else "full"
    console.print(f"[bold]{escape(options.model)} on {escape(options.data)}[/], {kind} run on {escape(DEVICE)}\n")
    if WHY_CPU:
        console.print(f"TensorRT is installed and not used: {escape(WHY_CPU)}\n")
    if recipe.subject.note:
        console.print(f"note: {escape(recipe.subject.note)}\n", soft_wrap=True, highlight=False)
    start = time.perf_counter()
    with exclusive(options.out):
        recipe.subject.prepare()
        if recipe.subject.preparation:
            _print_done(console, recipe.subject.preparation, time.perf_counter() - start)
        made_with, shown = {**versions(), "device": DEVICE}, functools.partial(working, console)
        for stage, seconds in run_stages(recipe.stages(), options.out, made_with, shown):
            _print_done(console, stage.title, seconds)
    results = load_results(options.out)
    _print_end(console, options, results, time.perf_counter() - start)
    failed = [f"{results.title(check['engine'])}: {failure(check)}" for check in results.checks if not check["passed"]]
    if failed:
        raise EngineError(f"{len(failed)} checks failed: {'; '.join(failed)}; see {options.out / 'report.html'}")
    return results


@contextlib.contextmanager
def working(console: Console, title: str) -> Iterator[Report]:
    """Show a spinner with a stage's title, and how far it is."""
    with console.status(escape(title)) as status:
        yield lambda text: status.update(f"{escape(title)} [dim]{escape(text)}[/]")


def _print_done(console: Console, title: str, seconds: float | None) -> None:
    took = "[dim]done before[/]" if seconds is None else f"{seconds:7.1f} s"
    console.print(f"[green]✓[/] {escape(title):<42}{took}", highlight=False)


def _print_end(console: Console, options: RunOptions, results: Results, seconds: float) -> None:
    console.print(f"\n[bold]Done in {seconds:.0f} s[/] on {escape(results.device)}", highlight=False)
    if said := deploy(results):
        console.print(escape(said), soft_wrap=True, highlight=False)
    for number, what, where in headline(results):
        console.print(f"  [bold cyan]{number:>8}[/]  {escape(what)} ({escape(where)})", highlight=False)
    if wrong := contradiction(results):
        console.print(f"note: {escape(wrong)}", soft_wrap=True, highlight=False)
    console.print(f"\nReport: {escape(str((options.out / 'report.html').resolve()))}", soft_wrap=True, highlight=False)
