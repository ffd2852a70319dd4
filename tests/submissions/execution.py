"""Runs one submission as grading does: the notebook's cells in order, then the claims, in a process of its own."""

import contextlib
import gc
import io
import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from helpers import models
from helpers.backend import ENGINE
from helpers.probes.networks import tiny_onnx
from solutions.checks import measurements_claims
from solutions.checks.core.claim import claims_of
from solutions.checks.core.record import read_record
from solutions.checks.trusted.workspace import prepare
from solutions.pipeline.build import build_engine
from solutions.pipeline.build_options import BuildOptions
from tests.submissions.bank import Submission, patched_cells

__all__ = ["SETTINGS", "Outcome", "run_all", "run_submission"]

SETTINGS = {"TRT_LAB_MODEL": "resnet18", "TRT_LAB_QUICK": "1", "MPLBACKEND": "Agg"}
"""The smaller model and fewer images: what a claim decides does not depend on the network's size."""

LIMIT_S = 900.0
_MEASURED = {
    "resnet50_fp32.engine": "fp32",
    "resnet50_dynamic_fp16.engine": "fp16",
    "resnet50_int8.engine": "fp16",
}
_HIDDEN = "### BEGIN HIDDEN TESTS"
_PRELOAD = ["matplotlib.pyplot", "nbformat", "onnx", "onnxruntime", "pandas", "scipy.stats", "torch", "torchvision"]
_PRELOAD_ON_CPU = ["helpers.feedback", "solutions.checks.core.claim", "tests.submissions.bank"]
"""What every submission imports, once: children of the fork server have it. CUDA cannot be used after a fork."""


@dataclass
class Outcome:
    """What became of a submission: every claim that was decided by name, what the visible checks said, cell errors."""

    claims: dict[str, dict[str, Any]] = field(default_factory=dict)
    visible: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0
    died: str = ""

    @property
    def lost(self) -> set[str]:
        """The claims that did not keep all their points."""
        return {name for name, result in self.claims.items() if result["status"] != "kept"}


def run_all(submissions: list[Submission], workers: int = 2) -> Iterator[tuple[Submission, "Outcome"]]:
    """Run submissions and yield each with its outcome: what times nothing beside each other, then the rest alone."""
    pool = ThreadPoolExecutor(workers)
    try:
        under_way = {pool.submit(run_submission, one): one for one in submissions if not one.timed}
        for done in as_completed(under_way):
            yield under_way[done], done.result()
    finally:
        pool.shutdown(cancel_futures=True)
    for submission in submissions:
        if submission.timed:
            yield submission, run_submission(submission)


def run_submission(submission: Submission, limit_s: float = LIMIT_S) -> Outcome:
    """Run a submission in a fresh process and return its outcome; one that dies or hangs says so in `died`.

    The environment must hold SETTINGS before the first call, since helpers.lab reads them when it is imported.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD + (_PRELOAD_ON_CPU if ENGINE == "cpu" else []))
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(submission, sender), daemon=False)
    started = time.perf_counter()
    process.start()
    sender.close()
    outcome = Outcome(died=f"no answer within {limit_s:g} s")
    with contextlib.suppress(EOFError):
        if receiver.poll(limit_s):
            outcome = receiver.recv()
    if process.is_alive() and outcome.died:
        process.kill()
    process.join()
    if outcome.died and process.exitcode not in (0, -9):
        outcome.died = f"the process ended with {process.exitcode}"
    outcome.seconds = time.perf_counter() - started
    return outcome


def _child(submission: Submission, sender: Any) -> None:
    outcome = Outcome()
    if not submission.timed:
        torch.set_num_threads(1)  # another runs beside it, and threads that wait for a taken core spin
    gc.freeze()  # the checks on memory collect garbage often, and need not look at all that the fork server imported
    # What the submission writes, native libraries included, is none of the runner's output.
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    try:
        with tempfile.TemporaryDirectory() as folder:
            _run(submission, Path(folder), outcome)
    except BaseException:
        outcome.died = traceback.format_exc()
    sender.send(outcome)
    sender.close()


def _run(submission: Submission, folder: Path, outcome: Outcome) -> None:
    home = folder / submission.step
    home.mkdir()
    os.chdir(home)
    os.environ["TRT_LAB_ARTIFACTS"] = str(folder / "artifacts")
    os.environ["TRT_LAB_RECORDS"] = str(folder / "records")
    prepare(submission.step, folder / "artifacts")
    if submission.step == "06_benchmark" and submission.kind in ("wrong", "right"):
        _measure_small_networks(folder / "artifacts")
    namespace: dict[str, Any] = {"__name__": "__main__", "In": []}
    for cell in _up_to_the_last_test(submission, patched_cells(submission)):
        about = cell.metadata.get("nbgrader", {})
        if "explore" in cell.metadata.get("tags", []):
            continue
        if about.get("grade") and not about.get("solution"):
            _test_cell(submission, cell.source, about["grade_id"], namespace, outcome)
        elif _execute(cell.source, about.get("grade_id", "cell"), namespace, outcome.errors) is None:
            namespace["In"].append(cell.source)


def _measure_small_networks(artifacts: Path) -> None:
    """Replace the networks that step 6 measures: how to measure does not depend on what is measured.

    The solution itself measures the real ones.
    """
    for seed, (name, precision) in enumerate(_MEASURED.items()):
        onnx = artifacts / "small.onnx"
        onnx.write_bytes(tiny_onnx(seed))
        build_engine(onnx, artifacts / name, BuildOptions(precision))
    for user in (models, measurements_claims):
        user.load_model = _small_network


def _small_network(name: str) -> torch.nn.Module:
    layers = [torch.nn.Conv2d(3, 16, 7, stride=4), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 3, stride=2)]
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10))


def _up_to_the_last_test(submission: Submission, cells: list[Any]) -> list[Any]:
    """Leave out what comes after the last test cell that is asked for: a later cell cannot change it."""
    tests = [index for index, cell in enumerate(cells) if _graded_as(cell) in submission.cells]
    return cells[: tests[-1] + 1] if tests else cells


def _graded_as(cell: Any) -> str | None:
    about = cell.metadata.get("nbgrader", {})
    return about["grade_id"] if about.get("grade") else None


def _test_cell(submission: Submission, source: str, grade_id: str, namespace: dict[str, Any], outcome: Outcome) -> None:
    if submission.cells and grade_id not in submission.cells:
        return
    visible, _, hidden = source.partition(_HIDDEN)
    if visible.strip():
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            _execute(visible, f"visible {grade_id}", namespace, [])
        outcome.visible[grade_id] = printed.getvalue()
    failed = _execute(hidden, f"hidden {grade_id}", namespace, outcome.errors)
    record = Path(os.environ["TRT_LAB_RECORDS"]) / f"{grade_id}.json"
    if failed is not None or not record.is_file():
        outcome.died = f"the test cell {grade_id} failed: {failed}"
        return
    for result in read_record(record).results:
        outcome.claims[result.claim] = {"status": result.status, "title": result.title, "missed": result.missed}
        outcome.claims[result.claim] |= {"evidence": result.evidence, "seconds": result.seconds, "cell": grade_id}
    assert len(read_record(record).results) == len(claims_of(grade_id))


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
