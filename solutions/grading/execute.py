"""Runs a submission in a sandboxed kernel, as nbgrader's Execute does, while a judge decides its test cells."""

import asyncio
import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from queue import Empty
from subprocess import DEVNULL
from typing import Any, ClassVar

from jupyter_core.utils import run_sync
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.preprocessors import Execute
from traitlets import Bool, Float, Integer, Unicode

from helpers.course.steps import CELLS
from solutions.grading.faults import CourseError
from solutions.grading.judge.handle import judging
from solutions.grading.judge.process import Asked
from solutions.grading.layout import answers_of, artifacts_of, records_of
from solutions.grading.locks import Gate
from solutions.grading.outcome import ANSWERS, decided_outputs, is_test_cell
from solutions.grading.scratch import Ahead
from solutions.grading.step_record import UNDER_WAY, StepRecord
from solutions.grading.untrusted.limits import OutputRoom
from solutions.sandbox import Limits, chosen
from solutions.sandbox.provisioner import SandboxedKernelManager
from solutions.sandbox.room import close
from trtcpu.errors import EngineError

_NO_HISTORY = "--HistoryManager.hist_file=:memory:"  # nbclient's for a Python kernel
# How many characters are kept of an error that does not fit a cell's outputs.
_ERROR_TEXT = 1000


class GradeExecute(Execute):
    """nbgrader's Execute for this course: it puts the artifacts in place first, and takes the points from the records.

    A dead kernel, a time limit or a flood of output ends the submission's run, but not the grading. What was decided
    keeps its points, and each cell that was not reached says why.
    """

    started_ahead: ClassVar[Ahead | None] = None
    """What this process has started ahead for the next submission, or None."""

    record_timing = False
    shutdown_kernel = "immediate"
    kernel_manager_class = SandboxedKernelManager
    notebook_timeout = Integer(3600, help="Seconds that a notebook may take in all.").tag(config=True)
    alone_timeout = Integer(1200, help="Seconds for which a notebook may keep others from grading.").tag(config=True)
    grace = Integer(60, help="Seconds that a cell may take to end after an interrupt.").tag(config=True)
    judge = Unicode("solutions.grading.judge.lab", help="The module that decides the test cells.").tag(config=True)
    unsafe = Bool(False, help="Grade without a sandbox if none works.").tag(config=True)
    memory_gb = Float(8.0, help="Memory that the submission's processes may use together.").tag(config=True)
    disk_gb = Float(2.0, help="What a submission may write.").tag(config=True)
    imports = Unicode(
        "import numpy, onnx, torch; from helpers import feedback, trt; from helpers.engine.backend import load_ahead; "
        "load_ahead()",
        help="Code that a kernel runs while it waits, started ahead.",
    ).tag(config=True)
    output_limit = Integer(2_000_000, help="Characters of output to keep per cell.").tag(config=True)

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any], **kwargs: Any
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Run the notebook for `resources["nbgrader"]`'s student and assignment.

        Raises:
            LabError: no sandbox works here, or the reference could not be made; the message ends with the reason.
            CourseError: the machine's disk or memory was full, which is not the submission's fault.
        """
        folder, step = Path(resources["metadata"]["path"]).resolve(), resources["nbgrader"]["assignment"]
        self._student, self._manager = folder.parent, None
        self._faults: dict[int, str] = {}
        self._decided: dict[int, list[NotebookNode]] = {}
        self._stopped: str | None = None
        self._timed_out = False
        self._room = OutputRoom(self.output_limit)
        self._timed, self._alone_left, self._alone_ends = _timed(nb), float(self.alone_timeout), math.inf
        self._gate = Gate()
        artifacts = artifacts_of(self._student)
        kind = chosen(self.unsafe)
        turn = self._gate.turn() if kind == "landlock" else nullcontext()
        with closing(self.started_ahead or self.ahead()) as ahead, turn:
            type(self).started_ahead, self._scratch = None, ahead.scratch
            asked = self._asked(step, kind)
            with judging(ahead.judge, asked, self._gate) as self._judge:
                prepared = self._judge.prepared
                self._scratch.fill(folder, artifacts, prepared["needs"])
                self._kernel = ahead.kernel(prepared["environment"], prepared["gpu"])
                self._ends = time.monotonic() + self.notebook_timeout
                with self._machine_with_room(step):
                    nb, resources = super().preprocess(nb, resources, **kwargs)
                changed = self._scratch.keep(step, artifacts, self._judge.judged, asked.room)
        for index, outputs in self._decided.items():  # only now: a later cell can still update a display
            nb.cells[index].outputs = outputs
        if notes := prepared["notes"] + changed:
            nb.cells.insert(0, _note(notes))
        return nb, resources

    @contextmanager
    def _machine_with_room(self, step: str) -> Iterator[None]:
        """Raise CourseError if the kernel ended because the machine was full."""
        try:
            yield
        finally:
            if (watch := self._manager and self._manager.watch) and watch.machine_full:
                again = "make room, and run the same command again"
                raise CourseError(f"{self._student.name} {step} was not graded: {watch.ended_by}; {again}")

    def _asked(self, step: str, sandbox: str) -> Asked:
        """Return what the judge is asked. When a class is graded, the seed is in the step's record."""
        record, artifacts = StepRecord.known(self._student, self._student.name, step), artifacts_of(self._student)
        return Asked(
            step,
            artifacts,
            self._scratch.artifacts,
            sandbox=sandbox,
            room=self._limits.scratch_bytes,
            seed=record.seed if record.state == UNDER_WAY else None,
            answers=answers_of(self._student),
            exchange=self._exchange,
        )

    @property
    def _exchange(self) -> Path | None:
        """The course's own exchange."""
        return Path(self.config.Exchange.root).resolve() if "root" in self.config.Exchange else None

    def ahead(self) -> Ahead:
        """Return what a submission needs, with nothing started yet."""
        if exchange := self._exchange:
            close(exchange)
        arguments = self.extra_arguments or [_NO_HISTORY]
        return Ahead(self.judge, chosen(self.unsafe), self._limits, arguments, self.imports)

    @property
    def _limits(self) -> Limits:
        return Limits(
            memory_bytes=round(self.memory_gb * 2**30),
            scratch_bytes=round(self.disk_gb * 2**30),
            seconds=self.notebook_timeout + 2.0 * self.grace,
        )

    def create_kernel_manager(self) -> SandboxedKernelManager:
        """Return the kernel that was started ahead for this submission, else a new one."""
        self.km = self._manager = self._kernel[0] or super().create_kernel_manager()
        return self.km

    async def async_start_new_kernel(self, **kwargs: Any) -> None:
        """Start the kernel in its sandbox; this process's environment does not change."""
        kwargs |= {"stdout": DEVNULL, "stderr": DEVNULL}  # no submission writes to the instructor's terminal
        await super().async_start_new_kernel(**kwargs, **self._kernel[1])

    start_new_kernel = run_sync(async_start_new_kernel)  # the one that nbconvert calls

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Run one cell. In a test cell the kernel answers the judge instead of running the check.

        While time is measured nobody else grades on this machine. Waiting for that does not count as the cell's time.
        """
        came, watch = time.monotonic(), self.km.watch
        with ExitStack() as passing:
            with watch.paused() if watch is not None else nullcontext():  # while somebody measures time
                passing.enter_context(self._gate.passed(alone=index in self._timed))
            waited = time.monotonic() - came
            self._ends += waited
            if watch is not None:
                watch.grant(waited)
            with self._alone() if index in self._timed else nullcontext():
                return self._graded(cell, resources, index)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Count the time in which nobody else can grade."""
        self._alone_ends = time.monotonic() + self._alone_left
        try:
            yield
        finally:
            self._alone_left, self._alone_ends = self._alone_ends - time.monotonic(), math.inf

    def _graded(self, cell: NotebookNode, resources: dict[str, Any], index: int) -> tuple[NotebookNode, dict[str, Any]]:
        if not is_test_cell(cell):
            return self._run(cell, resources, index)
        name, shown = cell.metadata.nbgrader.grade_id, cell.source
        record = records_of(self._student) / f"{name}.json"
        record.unlink(missing_ok=True)
        cell, resources = self._judged(cell, resources, index)
        cell.source = shown
        fault = self._faults.get(index) or _raised(cell)
        self._decided[index] = decided_outputs(record, float(cell.metadata.nbgrader.points), fault)
        return cell, resources

    def _judged(self, cell: NotebookNode, resources: dict[str, Any], index: int) -> tuple[NotebookNode, dict[str, Any]]:
        """Run a test cell while the judge decides it."""
        if self._over(index):
            return cell, resources
        name = cell.metadata.nbgrader.grade_id
        try:
            watch = self.km.watch
            door = self._judge.begin(name, self._scratch.folder, watch and watch.process)
        except EngineError as error:
            self._faults[index] = str(error)
            return cell, resources
        cell.source = ANSWERS.format(door=door)
        cell, resources = self._run(cell, resources, index)
        if undecided := self._judge.end(name, self.grace):
            self._faults.setdefault(index, undecided)
        return cell, resources

    def _over(self, index: int) -> bool:
        """Return whether nothing more can run, and note in `_faults` why not."""
        if self._stopped is None and time.monotonic() > self._ends:
            self._stopped = (
                f"the notebook's time limit of {self.notebook_timeout} s was used up before cell {index + 1}"
            )
        if self._stopped is None and time.monotonic() > self._alone_ends:
            self._stopped = f"it kept others from grading for {self.alone_timeout} s before cell {index + 1}"
        if self._stopped is not None:
            self._faults[index] = f"this cell was not reached, since {self._stopped}"
        return self._stopped is not None

    def _run(self, cell: NotebookNode, resources: dict[str, Any], index: int) -> tuple[NotebookNode, dict[str, Any]]:
        """Run one cell. Note in `_faults` if it did not end, and in `_stopped` if nothing more can run."""
        if self._over(index):
            return cell, resources
        self._timed_out = False
        self._room.next_cell()
        started = time.monotonic()
        try:
            cell, resources = super().preprocess_cell(cell, resources, index)
        except DeadKernelError:
            reason = self.km.watch.ended_by or "a crash, an exit or too little memory"
            self._stopped = f"the kernel died in cell {index + 1} ({reason})"
            self._faults[index] = self._stopped
        except (CellTimeoutError, RuntimeError) as error:  # the kernel's channels: outputs did not arrive in time
            self._faults[index] = f"its outputs did not arrive: {str(error)[:200]!r}"
        if self._timed_out:
            self._faults[index] = f"it was stopped by the time limit after {time.monotonic() - started:.0f} s"
            self._settle(index)
        return cell, resources

    def _get_timeout(self, cell: NotebookNode | None) -> int | None:
        left = max(1, round(min(self._ends, self._alone_ends) - time.monotonic()))
        limit = super()._get_timeout(cell)
        return left if limit is None else min(limit, left)

    async def _async_handle_timeout(self, timeout: int, cell: NotebookNode | None = None) -> dict[str, Any] | None:
        self._timed_out = True
        return await super()._async_handle_timeout(timeout, cell)

    def _settle(self, index: int) -> None:
        """Give an interrupted cell time to end; if it does not, end the kernel."""
        if not run_sync(self._answers)():
            run_sync(self.km.shutdown_kernel)(now=True)
            self._stopped = f"cell {index + 1} did not end when it was interrupted by the time limit"

    async def _answers(self) -> bool:
        asked, ends = self.kc.kernel_info(), time.monotonic() + self.grace
        if asyncio.iscoroutine(asked):
            asked = await asked
        while time.monotonic() < ends:
            try:
                message = await self.kc.shell_channel.get_msg(timeout=1)
            except Empty:
                continue
            if message["parent_header"].get("msg_id") == asked:
                return True
        return False

    def on_cell_executed(self, **told: Any) -> None:
        """Shorten the error in the kernel's reply, which nbgrader shows if the output itself had no room."""
        reply = told["execute_reply"]
        if reply["content"].get("status") == "error":
            short = {name: str(reply["content"].get(name, ""))[:_ERROR_TEXT] for name in ("ename", "evalue")}
            shown = reply["content"].get("traceback") and [f"{short['ename']}: {short['evalue']}"]
            told["execute_reply"] = {**reply, "content": {"status": "error", **short, "traceback": shown or []}}
        super().on_cell_executed(**told)

    def process_message(self, msg: dict[str, Any], cell: NotebookNode, cell_index: int) -> NotebookNode | None:
        """Keep a cell's outputs up to `output_limit` characters, and say where the rest was cut off."""
        try:
            shown = (msg["content"].get("transient") or {}).get("display_id")
            places = 1 + sum(map(len, self._display_id_map.get(shown, {}).values()))
            kept = self._room.admit(msg, places)
            return None if kept is None else super().process_message(kept, cell, cell_index)
        except (AttributeError, KeyError, TypeError, ValueError):  # malformed: the cell's code sent it, not the kernel
            return None


def _timed(notebook: NotebookNode) -> set[int]:
    """Return the indices of the test cells that measure time, and of the cells that lead to each of them."""
    found, since = set(), []
    for index, cell in enumerate(notebook.cells):
        since.append(index)
        if is_test_cell(cell):
            known = CELLS.get(cell.metadata.nbgrader.grade_id)
            found |= set(since) if known and known.timed else set()
            since = []
    return found


def _raised(cell: NotebookNode) -> str | None:
    errors = [output for output in cell.outputs if output.output_type == "error"]
    return f"it raised {errors[0].ename}: {errors[0].evalue[:200]}" if errors else None


def _note(lines: list[str]) -> NotebookNode:
    text = "\n".join(["**Graded with these artifacts of earlier steps**", "", *(f"- {line}" for line in lines)])
    return new_markdown_cell(text)
