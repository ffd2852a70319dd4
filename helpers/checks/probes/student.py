"""The student's work as points see it: probes that take and return plain data, and artifacts as bytes."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from helpers.checks.missed import Missed
from helpers.checks.probes.answer import MOST_CHARACTERS, Ask, Probe, answer, known_probe
from helpers.checks.probes.channel import ChannelError
from helpers.checks.probes.codec import NotPlainDataError, pack, unpack
from helpers.checks.probes.schema import fitting, schema_of
from helpers.course.artifacts import artifacts_folder
from helpers.tools.files import read_within
from trtcpu.api_changes import replacement
from trtcpu.errors import InputError

DEFAULT_LIMIT_S = 300.0
"""Seconds one probe may take: about ten times what a two-core laptop needs for the longest."""

_MOST_RECEIVED = 1 << 30
"""Most bytes of all answers to one test cell, which are kept until it is decided."""

Send = Callable[[bytes, Ask, float], bytes]
"""`send(request, ask, limit_s)` carries a packed request to the student's functions, and returns the packed reply.

`ask` answers the probe's questions meanwhile. If nothing usable comes back in time, it raises ChannelError.
"""


class Error(TypedDict):
    type: str
    message: str
    where: str


class Replied(TypedDict):
    value: Any
    error: Error | None
    output: str


"""The form of an unpacked answer (helpers.checks.probes.answer)."""


@dataclass(frozen=True)
class Reply:
    """A reply: the probe's `value` or the student's `error`, the printed output, and the object that `served`."""

    value: Any
    error: dict[str, str] | None
    output: str
    served: Any = None

    def require(self, what: str) -> Any:
        """Return the value; `what` names the function in the message.

        Raises:
            Missed: the student's code raised, ran too long, or is not written yet.
        """
        if self.error is None:
            return self.value
        kind, message, where = self.error["type"], self.error["message"], self.error["where"]
        told = {
            "NotImplementedError": (f"{what} to be written", "the TODO is still there", f"fill in {what}"),
            "MissingNameError": (f"{what} to be defined", message, f"run the cell of {what}, and read its error"),
            "TimeLimitError": (f"{what} to return", f"{message} ({where})", "look for a loop that does not end"),
            "StillRunningError": (
                f"{what} to return",
                f"still running ({where})",
                "end the loop after the calls or the time asked for",
            ),
            "NotPlainData": (f"{what} to return numbers, text or arrays", message, "check the type of what it returns"),
        }
        if kind in told:
            raise Missed(*told[kind])
        said = f"{kind}: {message or 'without a message'}"
        if not where:  # not in the student's lines: our use of the return value failed
            raise Missed(f"{what} to return what the task asks for", said, "check type and shape of what it returns")
        printed = f"; it printed: {self.output.strip()[-300:]}" if self.output.strip() else ""
        advice = replacement(message) or f"read {where} again"
        raise Missed(f"{what} to run without an exception", f"{said} ({where}){printed}", advice)


class Student:
    """A handle on one student's notebook.

    Args:
        send: carries packed bytes to the notebook's functions, and back.
        artifacts: returns a deliverable's bytes by its name, None if the student did not make it.
    """

    def __init__(self, send: Send, artifacts: Callable[[str], bytes | None]) -> None:
        self._send, self.artifact = send, artifacts
        self._replies: dict[str, Reply] = {}
        self._received = 0

    @classmethod
    def in_process(cls, namespace: Mapping[str, Any]) -> "Student":
        """Return a handle on functions of this process (a notebook's globals) and its artifacts folder."""

        folder = artifacts_folder().resolve()
        return cls(lambda request, ask, limit_s: answer(namespace, request, ask), partial(read_artifact, folder))

    def call(
        self,
        probe: Probe | str,
        *,
        fresh: bool = False,
        limit_s: float = DEFAULT_LIMIT_S,
        serves: Callable[[], Any] | None = None,
        **data: Any,
    ) -> Reply:
        """Run a probe (helpers.checks.probes.answer) on the notebook.

        A repeated call is answered from memory, so several points can look at one build; `fresh` runs it again.

        `serves` makes the object that answers the probe's questions (`notebook.ask`) while it runs: a class, or a
        `functools.partial` of a class and plain data. Its `ASKED` names the methods that can be asked; they take and
        return plain data. It lives on this side, so its counts and times are evidence: the reply's `served`.

        Raises:
            Missed: no reply came, or it cannot be read.
        """
        name, module = (probe, "") if isinstance(probe, str) else (probe.__name__, probe.__module__)
        request = pack({"probe": name, "module": module, "data": data, "limit_s": limit_s})
        key = hashlib.sha256(request + repr(serves).encode()).hexdigest()
        if fresh or key not in self._replies:
            self._replies[key] = self._asked(probe, request, serves and serves(), limit_s)
        return self._replies[key]

    def _asked(self, probe: Probe | str, request: bytes, served: Any, limit_s: float) -> Reply:
        try:
            packed = self._send(request, partial(_answered, served), limit_s)
            self._received += len(packed)
            if self._received > _MOST_RECEIVED:
                raise ChannelError(f"more than {_MOST_RECEIVED / 1e9:.1f} GB of answers to one cell")
            reply = Reply(**fitting(unpack(packed), Replied), served=served)
            if reply.error is None:
                fitting(reply.value, schema_of(known_probe(probe) if isinstance(probe, str) else probe))
            return reply
        except (ChannelError, NotPlainDataError) as error:
            advice = "restart the kernel, run all cells, and find the one that ends it or never finishes"
            raise Missed("an answer from the notebook", str(error), advice) from error


def one_each(answers: list[Any], asked: Sequence[Any], what: str = "calls") -> list[Any]:
    """Return the answers; raise Missed unless there is one for each question. Forgers may send more."""
    if len(answers) != len(asked):
        advice = "restart the kernel and run all cells"
        raise Missed(f"an answer to each of {len(asked)} {what}", f"{len(answers)}", advice)
    return answers


def _answered(served: Any, question: bytes) -> bytes:
    """Return an object's packed answer to a question, which may be hostile and must do no harm."""
    try:
        asked = unpack(question)
        if asked["name"] not in getattr(served, "ASKED", ()):
            raise LookupError(f"nobody answers {asked['name']!r:.40}")
        return pack({"value": getattr(served, asked["name"])(**asked["data"]), "error": None})
    except Exception as error:  # caused by the arguments, which are the student's
        return pack({"value": None, "error": f"{type(error).__name__}: {error}"[:MOST_CHARACTERS]})


_LARGE, _SMALL_BYTES, _LARGE_BYTES = (".onnx", ".engine"), 16 << 20, 512 << 20


def read_artifact(folder: Path, name: str) -> bytes | None:
    """Return the content of a file of the lab; None if it is missing, a link, a pipe or far too large."""
    try:
        return read_within(folder, name, _LARGE_BYTES if name.endswith(_LARGE) else _SMALL_BYTES)
    except InputError:
        return None
