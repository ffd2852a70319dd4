"""The submission as the claims see it: calls that take and return plain data, and artifacts as bytes."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from helpers.lab import artifacts_folder
from solutions.checks.claims import Missed
from solutions.checks.codec import pack, unpack
from solutions.checks.operations import answer

__all__ = ["Reply", "Student"]

DEFAULT_LIMIT_S = 300.0
"""Seconds one call may take: about ten times what a two-core laptop needs for the longest."""


@dataclass(frozen=True)
class Reply:
    """What came back: the operation's `value` or the student's `error`, what it printed, and its seconds."""

    value: Any
    error: dict[str, str] | None
    output: str
    seconds: float

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
        found = f"{kind}: {message}" + (f" ({where})" if where else "")
        raise Missed(f"{what} to finish and answer", found, "run it in a cell of its own and read the traceback")


class Student:
    """A handle on one submission. `send` carries packed bytes to the side where its functions are, and back."""

    def __init__(self, send: Callable[[bytes], bytes], artifacts: Path) -> None:
        self._send = send
        self._artifacts = artifacts
        self._replies: dict[str, Reply] = {}

    @classmethod
    def in_process(cls, namespace: Mapping[str, Any]) -> "Student":
        """Return a handle on functions of this process (a notebook's globals) and its artifacts folder."""
        return cls(partial(answer, namespace), artifacts_folder())

    def call(self, operation: str, *, fresh: bool = False, limit_s: float = DEFAULT_LIMIT_S, **data: Any) -> Reply:
        """Run an operation of solutions/checks/operations on the submission.

        The same call is answered from memory, so that several claims can look at one build; `fresh` runs it again.
        """
        request = pack({"operation": operation, "data": data, "limit_s": limit_s})
        key = hashlib.sha256(request).hexdigest()
        if fresh or key not in self._replies:
            self._replies[key] = Reply(**unpack(self._send(request)))
        return self._replies[key]

    def artifact(self, name: str) -> bytes | None:
        """Return a deliverable's bytes, None where the submission did not make it."""
        path = self._artifacts / name
        try:
            return path.read_bytes() if path.is_file() and not path.is_symlink() else None
        except OSError:
            return None
