"""The student's work as points and claims see it: probes that take and return plain data, and artifacts as bytes."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from helpers.api_changes import replacement
from helpers.lab import artifacts_folder
from helpers.missed import SLIPS, Missed
from helpers.probes.answer import Probe, Serve, answer
from helpers.probes.codec import NotPlainDataError, pack, unpack

__all__ = ["Reply", "Served", "Student"]

DEFAULT_LIMIT_S = 300.0
"""Seconds one probe may take: about ten times what a two-core laptop needs for the longest."""


@dataclass(frozen=True)
class Served:
    """An object that lives on the side that judges while a probe runs: its own counts and clock are evidence.

    `make(**data)` makes it. A probe calls those of its methods that its `SERVED` names, through `notebook.ask`; the
    student's side gets to know what they answer, and nothing else of `data`, which is plain.
    """

    make: Callable[..., Any]
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """What came back: the probe's `value` or the student's `error`, what was printed, and its seconds.

    `served` is the object that was served meanwhile, None without one.
    """

    value: Any
    error: dict[str, str] | None
    output: str
    seconds: float
    served: Any = None

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
    """A handle on one student's notebook. `send` carries packed bytes to the side where its functions are, and back.

    While it runs a probe, `send(request, serve)` hands that side's questions to `serve`.
    """

    def __init__(self, send: Callable[[bytes, Serve | None], bytes], artifacts: Path) -> None:
        self._send = send
        self._artifacts = artifacts
        self._replies: dict[str, Reply] = {}

    @classmethod
    def in_process(cls, namespace: Mapping[str, Any]) -> "Student":
        """Return a handle on functions of this process (a notebook's globals) and its artifacts folder."""
        return cls(partial(answer, namespace), artifacts_folder())

    def call(
        self,
        probe: Probe | str,
        *,
        fresh: bool = False,
        limit_s: float = DEFAULT_LIMIT_S,
        serves: Served | None = None,
        **data: Any,
    ) -> Reply:
        """Run a probe (helpers.probes.answer) on the notebook, which may ask the object that `serves` makes.

        The same call is answered from memory, so that several points can look at one build; `fresh` runs it again.
        """
        name = probe if isinstance(probe, str) else probe.__name__
        request = pack({"probe": name, "data": data, "limit_s": limit_s})
        secret = pack([serves.make.__qualname__, serves.data]) if serves else b""
        key = hashlib.sha256(request + secret).hexdigest()
        if fresh or key not in self._replies:
            served = serves.make(**serves.data) if serves else None
            found = self._send(request, partial(_served, served) if serves else None)
            self._replies[key] = Reply(**unpack(found), served=served)
        return self._replies[key]

    def artifact(self, name: str) -> bytes | None:
        """Return a deliverable's bytes, None where the student did not make it."""
        path = self._artifacts / name
        try:
            return path.read_bytes() if path.is_file() and not path.is_symlink() else None
        except OSError:
            return None


def _served(served: Any, question: bytes) -> bytes:
    """Return what an object answers to a probe's question; one that it does not take is refused, whoever asked it."""
    try:
        asked = unpack(question)
        name, data = asked["name"], asked["data"]
        if name not in served.SERVED:
            raise LookupError(f"{name!r} is none of {', '.join(served.SERVED)}")
        return pack({"value": getattr(served, name)(**data), "refused": ""})
    except (ArithmeticError, AttributeError, LookupError, NotPlainDataError, TypeError, ValueError) as error:
        return pack({"value": None, "refused": f"{type(error).__name__}: {str(error)[:200]}"})
