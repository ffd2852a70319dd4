"""Runs one entry as grading does: the notebook's cells in order, then the claims, in a process of its own."""

import contextlib
import gc
import io
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from helpers.course.artifacts import use_artifacts
from helpers.data import models
from helpers.engine.backend import API, ENGINE
from helpers.tools.cells import as_python
from helpers.toys.networks import tiny_onnx
from solutions.checks import s03_dynamic
from solutions.checks.core.asked import points_of
from solutions.checks.core.record import read_record, record_path
from solutions.checks.core.seed import use_seed
from solutions.checks.trusted.reference import reference
from solutions.checks.trusted.workspace import prepare
from solutions.grading.layout import artifacts_of
from solutions.grading.outcome import CLAIMS
from tests.submissions.bank import Entry, patched_cells
from tests.submissions.sandboxed import grade
from tests.submissions.strangers import held
from trtcpu.api.version import API_VARIABLE
from trtlab.building.build import build_engine
from trtlab.building.build_options import BuildOptions

SETTINGS = {"TRT_LAB_MODEL": "resnet18", "TRT_LAB_QUICK": "1", "MPLBACKEND": "Agg"}
"""The smaller model and fewer images: what a claim decides does not depend on the network's size."""

LIMIT_S = 900.0
_LOOK_S = 0.1
_RECORDS = "records"
_NOT_GRADED = "feedback.check_speed("
"""It times an engine for ten seconds, and does nothing while nbgrader grades."""

_ABOUT_ENGINES = ("05_inference", "06_benchmark", "08_report")
_SMALL = {
    "resnet50_fp32.engine": "fp32",
    "resnet50_dynamic_fp16.engine": "fp16",
    "resnet50_int8.engine": "fp16",
}
_PRELOAD = ["matplotlib.pyplot", "nbformat", "onnx", "onnxruntime", "pandas", "scipy.stats", "torch", "torchvision"]
_PRELOAD_ON_CPU = ["helpers.checks.feedback", "tests.submissions.bank", "tests.submissions.preload"]
"""What every entry imports, once: children of the fork server have it. CUDA cannot be used after a fork."""

_STARTING = threading.Lock()
"""Two at a time would share the variable that says which API a process speaks."""


@dataclass
class Outcome:
    """What became of an entry: every claim that was decided by name, what the visible checks said, cell errors."""

    claims: dict[str, dict[str, Any]] = field(default_factory=dict)
    visible: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0
    died: str = ""

    @property
    def lost(self) -> set[str]:
        """The claims that did not keep all their points."""
        return {name for name, result in self.claims.items() if result["status"] != "kept"}


def run_all(
    entries: list[Entry], workers: int = 2, run: "Callable[[Entry], Outcome] | None" = None
) -> Iterator[tuple[Entry, "Outcome"]]:
    """Run entries and yield each with its outcome: what times nothing beside each other, then the rest alone.

    `run` is `run_entry` with other settings.
    """
    run = run or run_entry
    pool = ThreadPoolExecutor(workers)
    try:
        under_way = {pool.submit(run, one): one for one in entries if not one.timed}
        for done in as_completed(under_way):
            yield under_way[done], done.result()
    finally:
        pool.shutdown(cancel_futures=True)
    for entry in entries:
        if entry.timed:
            yield entry, run(entry)


def run_entry(
    entry: Entry,
    limit_s: float = LIMIT_S,
    *,
    stop_at_loss: bool = False,
    sandboxed: bool = False,
    seed: int | None = None,
) -> Outcome:
    """Run an entry in a fresh process and return its outcome; one that dies or hangs says so in `died`.

    With `sandboxed` its kernel is in the sandbox and a judge decides: slower, and without what visible checks said.
    Its inputs are drawn from `seed`, else from a fresh one. With `stop_at_loss` it is ended at the first claim that it
    does not keep, and the outcome holds the claims so far.
    The environment must hold SETTINGS before the first call, since helpers.course reads them when it is imported.
    """
    with tempfile.TemporaryDirectory() as folder:
        return _run_in(Path(folder), entry, limit_s, stop_at_loss, (sandboxed, seed))


def _run_in(folder: Path, entry: Entry, limit_s: float, stop_at_loss: bool, how: tuple[bool, int | None]) -> Outcome:
    receiver, sender = multiprocessing.Pipe(duplex=False)
    started = time.perf_counter()
    process = _started(entry, folder, sender, how)
    sender.close()
    outcome = _answer(receiver, folder / _RECORDS, started + limit_s, stop_at_loss)
    if outcome is None:
        outcome = Outcome(_decided(folder / _RECORDS))
        if not (stop_at_loss and outcome.lost):
            outcome.died = f"no answer within {limit_s:g} s"
        process.kill()
    process.join()
    if outcome.died and process.exitcode not in (0, -signal.SIGKILL):
        outcome.died = f"the process ended with {process.exitcode}"
    outcome.seconds = time.perf_counter() - started
    return outcome


def _started(entry: Entry, folder: Path, sender: Any, how: tuple[bool, int | None]) -> BaseProcess:
    """Start an entry's process: a fork with what every entry imports, or a new one where the API is another."""
    context = multiprocessing.get_context("forkserver" if entry.api == API else "spawn")
    if entry.api == API:
        context.set_forkserver_preload(_PRELOAD + (_PRELOAD_ON_CPU if ENGINE == "cpu" else []))
    process = context.Process(target=_child, args=(entry, folder, sender, *how), daemon=False)
    with _STARTING, speaking(entry.api):
        process.start()
    return process


@contextlib.contextmanager
def speaking(api: int) -> Iterator[None]:
    """What is started meanwhile speaks this API on the CPU engine."""
    before = os.environ.get(API_VARIABLE)
    os.environ[API_VARIABLE] = str(api)
    try:
        yield
    finally:
        os.environ.pop(API_VARIABLE)
        os.environ.update({API_VARIABLE: before} if before is not None else {})


def _answer(receiver: Any, records: Path, deadline: float, stop_at_loss: bool) -> Outcome | None:
    """Wait for what the process sends: None at the deadline or, with `stop_at_loss`, when a claim is lost."""
    while time.perf_counter() < deadline:
        try:
            if receiver.poll(_LOOK_S):
                return receiver.recv()
        except EOFError:
            return Outcome(_decided(records), died="the process ended without an answer")
        if stop_at_loss and Outcome(_decided(records)).lost:
            return None
    return None


def _decided(records: Path) -> dict[str, dict[str, Any]]:
    """Return the claims decided so far; a record grows with each of them."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(records.glob("[!.]*.json")):
        for result in read_record(path).results:
            found[result.claim] = {"status": result.status, "title": result.title, "missed": result.missed}
            found[result.claim] |= {"evidence": result.evidence, "seconds": result.seconds, "cell": path.stem}
    return found


def _child(entry: Entry, folder: Path, sender: Any, sandboxed: bool, seed: int | None) -> None:
    use_seed(seed)
    outcome = Outcome()
    if not entry.timed:
        torch.set_num_threads(1)  # another runs beside it, and threads that wait for a taken core spin
    gc.freeze()  # the checks on memory collect garbage often, and need not look at all that the fork server imported
    # What the entry writes, native libraries included, is none of the runner's output.
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    try:
        (_run_sandboxed if sandboxed else _run)(entry, folder, outcome)
    except BaseException:
        outcome.died = traceback.format_exc()
    sender.send(outcome)
    sender.close()


def _run(entry: Entry, folder: Path, outcome: Outcome) -> None:
    home = folder / entry.step
    home.mkdir()
    os.chdir(home)
    use_artifacts(folder / "artifacts")
    small = entry.step in _ABOUT_ENGINES and entry.kind not in ("solution", "skeleton")
    prepare(entry.step, folder / "artifacts", given=_SMALL if small else ())
    if small:
        _lend_small_networks(folder / "artifacts")
    _make_earlier(entry, folder / "artifacts")
    if entry.lent_its_engine:
        shutil.copyfile(reference().path(s03_dynamic.ARTIFACT), folder / "artifacts" / s03_dynamic.ARTIFACT)
    namespace: dict[str, Any] = {"__name__": "__main__", "In": []}
    for cell in _up_to_the_last_test(entry, patched_cells(entry)):
        if "explore" in cell.metadata.get("tags", []) or cell.source.startswith(_NOT_GRADED):
            continue
        source = as_python(cell.source)  # as IPython compiles and remembers it
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "cell")
        if _test_in(cell):
            _test_cell(entry, cell.source, name, namespace, outcome)
        elif _execute(source, name, namespace, outcome.errors) is None:
            namespace["In"].append(source)


def _run_sandboxed(entry: Entry, folder: Path, outcome: Outcome) -> None:
    cells = _up_to_the_last_test(entry, patched_cells(entry, lent=False))
    wanted = [cell for cell in cells if "explore" not in cell.metadata.get("tags", [])]
    kept = [cell for cell in wanted if _test_in(cell) in (None, *entry.graded)]
    _make_earlier(entry, artifacts_of(folder / "student"))
    records, outcome.errors = grade(entry.step, kept, folder, entry.timed)
    outcome.claims = _decided(records)
    if lacking := [cell for cell in entry.graded if not (records / f"{cell}.json").is_file()]:
        outcome.died = f"without a record: {', '.join(lacking)}"


def _make_earlier(entry: Entry, artifacts: Path) -> None:
    """Put what the entry handed in in earlier steps among its artifacts."""
    if entry.before:
        artifacts.mkdir(parents=True, exist_ok=True)
        use_artifacts(artifacts)
        exec(entry.before, {"__name__": "before"})


def _lend_small_networks(artifacts: Path) -> None:
    """Give small networks to a step that runs, measures or reports on engines: that does not depend on which they are.

    The solution itself measures the real ones.
    """
    for seed, (name, precision) in enumerate(_SMALL.items()):
        onnx = artifacts / "small.onnx"
        onnx.write_bytes(tiny_onnx(seed))
        largest = 32 + seed  # no two of one memory
        build_engine(onnx, artifacts / name, BuildOptions(precision, min_batch=1, opt_batch=8, max_batch=largest))
    models.load_model = _small_network


def _small_network(name: str, data: Path | None = None) -> torch.nn.Module:
    layers = [torch.nn.Conv2d(3, 16, 7, stride=4), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 3, stride=2)]
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10))


def _up_to_the_last_test(entry: Entry, cells: list[Any]) -> list[Any]:
    """Leave out what comes after the last test cell that is asked for: a later cell cannot change it."""
    tests = [index for index, cell in enumerate(cells) if _test_in(cell) in entry.graded]
    return cells[: tests[-1] + 1]


def _test_in(cell: Any) -> str | None:
    """Return a test cell's name; None for any other, also one that a person grades."""
    about = cell.metadata.get("nbgrader", {})
    return about["grade_id"] if about.get("grade") and not about.get("solution") else None


def _test_cell(entry: Entry, source: str, grade_id: str, namespace: dict[str, Any], outcome: Outcome) -> None:
    if entry.cells and grade_id not in entry.cells:
        return
    with held():  # first, since grading runs no visible check: it would find mistakes that show in a second call alone
        failed = _execute(CLAIMS.format(cell=grade_id), f"hidden {grade_id}", namespace, outcome.errors)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        _execute(source, f"visible {grade_id}", namespace, [])
    outcome.visible[grade_id] = printed.getvalue()
    record = record_path(grade_id)
    if failed is not None or not record.is_file():
        outcome.died = f"the test cell {grade_id} failed: {failed}"
        return
    outcome.claims |= {name: found for name, found in _decided(record.parent).items() if found["cell"] == grade_id}
    assert len(read_record(record).results) == len(points_of(grade_id))


def _execute(source: str, name: str, namespace: dict[str, Any], errors: list[str]) -> str | None:
    """Run a cell as a notebook does; an exception ends the cell, not the notebook. Returns the exception's text."""
    import linecache

    filename = f"<cell {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    try:
        exec(compile(source, filename, "exec"), namespace)
    except (Exception, SystemExit) as error:
        errors.append(f"{name}: {type(error).__name__}: {error}")
        return errors[-1]
    return None
