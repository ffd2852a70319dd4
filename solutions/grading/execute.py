"""Runs a submission in a kernel, as nbgrader's Execute does, and takes the points from its test cells' records."""

import asyncio
import shutil
import time
from pathlib import Path
from queue import Empty
from subprocess import DEVNULL
from typing import Any

from jupyter_core.utils import run_sync
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.preprocessors import Execute
from traitlets import Integer, Unicode

from solutions.grading.environment import kernel_environment, prepared, records_of
from solutions.grading.outcome import CLAIMS, decided_outputs, is_test_cell
from solutions.grading.untrusted.output_room import OutputRoom

__all__ = ["GradeExecute"]


class GradeExecute(Execute):
    """nbgrader's Execute for this course: artifacts in place before, points from the records after.

    A dead kernel, a time limit or a flood of output ends the submission's run, never the grading: what was decided
    keeps its points, and each cell that was not reached says why.
    """

    record_timing = False
    notebook_timeout = Integer(3600, help="Seconds that one notebook may take in all.").tag(config=True)
    grace = Integer(60, help="Seconds that a cell may take to end after it was interrupted.").tag(config=True)
    claims = Unicode(CLAIMS, help="Code that runs after the test cell {cell} and decides its points.").tag(config=True)
    output_limit = Integer(2_000_000, help="Characters of output that are kept of one cell.").tag(config=True)

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any], **kwargs: Any
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Run the notebook for `resources["nbgrader"]`'s student and assignment."""
        self._student = Path(resources["metadata"]["path"]).resolve().parent
        self._faults: dict[int, str] = {}
        self._decided: dict[int, list[NotebookNode]] = {}
        self._stopped: str | None = None
        self._timed_out = False
        self._room = OutputRoom(self.output_limit)
        notes, self._offered = prepared(resources["nbgrader"]["assignment"], self._student)
        self._ends = time.monotonic() + self.notebook_timeout
        nb, resources = super().preprocess(nb, resources, **kwargs)
        for index, outputs in self._decided.items():  # only now: a display can still be updated by a later cell
            nb.cells[index].outputs = outputs
        if notes:
            nb.cells.insert(0, _note(notes))
        return nb, resources

    def _record(self, cell: NotebookNode) -> Path:
        return records_of(self._student) / f"{cell.metadata.nbgrader.grade_id}.json"

    async def async_start_new_kernel(self, **kwargs: Any) -> None:
        """Start the kernel with its own environment; this process's stays as it is."""
        kwargs.setdefault("env", kernel_environment(self._student) | self._offered)
        kwargs |= {"stdout": DEVNULL, "stderr": DEVNULL}  # what escapes the cells' outputs is nobody's terminal's
        await super().async_start_new_kernel(**kwargs)

    start_new_kernel = run_sync(async_start_new_kernel)  # the one that nbconvert calls

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Run one cell. Of a test cell, only a record that it wrote itself counts, as it is when the cell ends."""
        if not is_test_cell(cell):
            return self._run(cell, resources, index)
        _remove(self._record(cell))
        shown = cell.source
        cell.source = f"{shown}\n\n{self.claims.format(cell=cell.metadata.nbgrader.grade_id)}"
        cell, resources = self._run(cell, resources, index)
        cell.source = shown
        fault = self._faults.get(index) or _raised(cell)
        self._decided[index] = decided_outputs(self._record(cell), float(cell.metadata.nbgrader.points), fault)
        return cell, resources

    def _run(self, cell: NotebookNode, resources: dict[str, Any], index: int) -> tuple[NotebookNode, dict[str, Any]]:
        """Run one cell; note in `_faults` why it did not end, and stop where nothing more can run."""
        if self._stopped is None and time.monotonic() > self._ends:
            self._stopped = (
                f"the notebook's time limit of {self.notebook_timeout} s was used up before cell {index + 1}"
            )
        if self._stopped is not None:
            self._faults[index] = f"this cell was not reached, since {self._stopped}"
            return cell, resources
        self._timed_out = False
        self._room.next_cell()
        started = time.monotonic()
        try:
            cell, resources = super().preprocess_cell(cell, resources, index)
        except DeadKernelError:
            self._stopped = f"the kernel died in cell {index + 1} (a crash, an exit or too little memory)"
            self._faults[index] = self._stopped
        except (CellTimeoutError, RuntimeError) as error:  # the kernel's channels: its outputs did not arrive in time
            self._faults[index] = f"its outputs did not arrive: {str(error)[:200]!r}"
        if self._timed_out:
            self._faults[index] = f"it was stopped by the time limit after {time.monotonic() - started:.0f} s"
            self._settle(index)
        return cell, resources

    def _get_timeout(self, cell: NotebookNode | None) -> int | None:
        left = max(1, round(self._ends - time.monotonic()))
        limit = super()._get_timeout(cell)
        return left if limit is None else min(limit, left)

    async def _async_handle_timeout(self, timeout: int, cell: NotebookNode | None = None) -> dict[str, Any] | None:
        self._timed_out = True
        return await super()._async_handle_timeout(timeout, cell)

    def _settle(self, index: int) -> None:
        """Give an interrupted cell some time to end; end the kernel where it does not."""
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

    def process_message(self, msg: dict[str, Any], cell: NotebookNode, cell_index: int) -> NotebookNode | None:
        """Keep a cell's outputs up to `output_limit` characters, and say where the rest was dropped."""
        try:
            shown = (msg["content"].get("transient") or {}).get("display_id")
            places = 1 + sum(map(len, self._display_id_map.get(shown, {}).values()))
            kept = self._room.admit(msg, places)
            return None if kept is None else super().process_message(kept, cell, cell_index)
        except (AttributeError, KeyError, TypeError, ValueError):  # no kernel sends such a message, the cell's code did
            return None


def _remove(path: Path) -> None:
    """Remove what is there under a record's name, whatever a submission put there."""
    if path.parent.is_symlink():
        path.parent.unlink()
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _raised(cell: NotebookNode) -> str | None:
    errors = [output for output in cell.outputs if output.output_type == "error"]
    return f"it raised {errors[0].ename}: {errors[0].evalue[:200]}" if errors else None


def _note(lines: list[str]) -> NotebookNode:
    text = "\n".join(["**Graded with these artifacts of earlier steps**", "", *(f"- {line}" for line in lines)])
    return new_markdown_cell(text)
