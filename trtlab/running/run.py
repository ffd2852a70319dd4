"""`trtlab run`: every stage in order, each shown with its seconds, and the headline numbers at the end."""

import time

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from helpers.engine.backend import DEVICE, WHY_CPU
from trtcpu.errors import EngineError
from trtlab.report.findings import contradiction, deploy, failure, headline
from trtlab.report.folder import load_results
from trtlab.report.results import Results
from trtlab.running.recipe import Recipe
from trtlab.running.run_options import RunOptions
from trtlab.running.stages import Stage, exclusive, run_stages
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
    with exclusive(options.out), RunView(console) as view:
        recipe.subject.prepare()
        if recipe.subject.preparation:
            view.line(recipe.subject.preparation, time.perf_counter() - start)
        run_stages(recipe.stages(), options.out, {**versions(), "device": DEVICE}, view)
    results = load_results(options.out)
    _print_end(console, options, results, time.perf_counter() - start)
    failed = [f"{results.title(check['engine'])}: {failure(check)}" for check in results.checks if not check["passed"]]
    if failed:
        raise EngineError(f"{len(failed)} checks failed: {'; '.join(failed)}; see {options.out / 'report.html'}")
    return results


class RunView:
    """Shows each stage: a spinner with its progress while it runs, then a tick and its seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None

    def __enter__(self) -> "RunView":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop()

    def started(self, stage: Stage) -> None:
        """Start the stage's spinner."""
        self._status = self._console.status(escape(stage.title))
        self._status.start()

    def progressed(self, stage: Stage, text: str) -> None:
        """Show how far the stage is."""
        if self._status is not None:
            self._status.update(f"{escape(stage.title)} [dim]{escape(text)}[/]")

    def ended(self, stage: Stage, seconds: float | None) -> None:
        """Print the stage's line."""
        self._stop()
        self.line(stage.title, seconds)

    def line(self, title: str, seconds: float | None) -> None:
        """Print that something is done, with its seconds; None where it had been done before."""
        took = "[dim]done before[/]" if seconds is None else f"{seconds:7.1f} s"
        self._console.print(f"[green]✓[/] {escape(title):<42}{took}", highlight=False)

    def _stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def _print_end(console: Console, options: RunOptions, results: Results, seconds: float) -> None:
    console.print(f"\n[bold]Done in {seconds:.0f} s[/] on {escape(results.device)}", highlight=False)
    if said := deploy(results):
        console.print(escape(said), soft_wrap=True, highlight=False)
    for number, what, where in headline(results):
        console.print(f"  [bold cyan]{number:>8}[/]  {escape(what)} ({escape(where)})", highlight=False)
    if wrong := contradiction(results):
        console.print(f"note: {escape(wrong)}", soft_wrap=True, highlight=False)
    console.print(f"\nReport: {escape(str((options.out / 'report.html').resolve()))}", soft_wrap=True, highlight=False)
