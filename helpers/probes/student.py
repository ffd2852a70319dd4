"""The student's work as points and claims see it: probes that take and return plain data, and artifacts as bytes."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from helpers.api_changes import replacement
from helpers.lab import artifacts_folder
from helpers.missed import SLIPS, Missed
from helpers.probes.answer import Probe, answer
from helpers.probes.codec import pack, unpack

__all__ = ["Reply", "Student"]

DEFAULT_LIMIT_S = 300.0
"""Seconds one probe may take: about ten times what a two-core laptop needs for the longest."""


@dataclass(frozen=True)
class Reply:
    """What came back: the probe's `value` or the student's `error`, what was printed, and its seconds."""

    value: Any
    error: dict[str, str] | None
    output: str
    seconds: float

    @property
    def slipped(self) -> bool:
        """Whether the error is of a slip, not one that was raised on purpose."""
        return self.error is not None and self.error["type"] in SLIPS

    def require(self, what: str) -> Any:
        """Return the value; `what` names the function in the message.

        Raises:
            Missed: the student's code raised, ran too long, or is not written yet.
        """
        if self.error is None:
            return self.value
        kind, message, where = self.error["type"], self.error["message"], self.error["where"]
        if kind == "NotImplementedError":
            raise Missed(f"{what} to be written", "the TODO is still there", f"fill in {what}")
        if kind == "MissingNameError":
            raise Missed(f"{what} as the task names it", message, f"run the cell that defines {what}, read its error")
        if kind == "TimeLimitError":
            raise Missed(
                f"an answer of {what}", f"{message}{where and f' ({where})'}", "look for a loop without an end"
            )
        if kind == "NotPlainData":
            raise Missed(f"{what} to give numbers, text or arrays", message, "look at the type of what it returns")
        said = f"{kind}: {message or 'without a message'}"
        if not where:  # none of the student's lines was running: our use of what came back failed
            raise Missed(f"{what} to give what the task names", said, "look at the type and shape of what it returns")
        printed = f"; it printed: {self.output.strip()[-300:]}" if self.output.strip() else ""
        advice = replacement(message) or f"read {where} again"
        raise Missed(f"{what} to run without an exception", f"{said} ({where}){printed}", advice)


class Student:
    """A handle on one student's notebook. `send` carries packed bytes to the side where its functions are, and back."""

    def __init__(self, send: Callable[[bytes], bytes], artifacts: Path) -> None:
        self._send = send
        self._artifacts = artifacts
        self._replies: dict[str, Reply] = {}

    @classmethod
    def in_process(cls, namespace: Mapping[str, Any]) -> "Student":
        """Return a handle on functions of this process (a notebook's globals) and its artifacts folder."""
        return cls(partial(answer, namespace), artifacts_folder())

    def call(self, probe: Probe | str, *, fresh: bool = False, limit_s: float = DEFAULT_LIMIT_S, **data: Any) -> Reply:
        """Run a probe (helpers.probes.answer) on the notebook.

        The same call is answered from memory, so that several points can look at one build; `fresh` runs it again.
        """
        name = probe if isinstance(probe, str) else probe.__name__
        request = pack({"probe": name, "data": data, "limit_s": limit_s})
        key = hashlib.sha256(request).hexdigest()
        if fresh or key not in self._replies:
            self._replies[key] = Reply(**unpack(self._send(request)))
        return self._replies[key]

    def artifact(self, name: str) -> bytes | None:
        """Return a deliverable's bytes, None where the student did not make it."""
        path = self._artifacts / name
        try:
            return path.read_bytes() if path.is_file() and not path.is_symlink() else None
        except OSError:
            return None
