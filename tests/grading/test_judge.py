"""The judge's door: whatever the kernel's side writes, late, long or never, costs an answer and nothing else."""

import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from helpers.checks.missed import Missed
from helpers.checks.probes import answer
from helpers.checks.probes.answer import AnswerError, Notebook, probe
from helpers.checks.probes.channel import REPLY, REQUEST, read_message, write_message
from helpers.checks.probes.codec import MOST_BYTES, pack
from helpers.checks.probes.serve import serve
from helpers.checks.probes.student import Student
from solutions.grading.faults import CourseError
from solutions.grading.judge.handle import Process, judging
from solutions.grading.judge.process import SLACK_S, Asked, Door
from solutions.sandbox.watch import MACHINE_FULL
from trtcpu.errors import EngineError

Kernel = Callable[[str], None]


@pytest.fixture
def place() -> Iterator[str]:
    """A path for a socket: short, as sockets need it."""
    with tempfile.TemporaryDirectory() as folder:
        yield f"{folder}/door"


@contextmanager
def _student(place: str, kernel: Kernel, slack_s: float = SLACK_S) -> Iterator[Student]:
    """Give a student who answers through the door, with `kernel` as the kernel's side; the cell ends with it."""
    over, told = socket.socketpair()

    def run() -> None:
        try:
            kernel(place)
        finally:
            told.send(b"the cell ended\n")

    with over, told, ThreadPoolExecutor() as threads, Door(place, over.fileno(), slack_s) as door:
        threads.submit(run)
        door.wait()
        yield Student(door.send, lambda name: None)
    assert not Path(place).exists()


def _found(student: Student) -> object:
    """Return what a call gives, a value or what was found in its place."""
    try:
        return student.call("called", fresh=True, name="work", argument=3, limit_s=0.0).value
    except Missed as missed:
        return missed.found


def _answering(*messages: bytes, stays: bool = False) -> Kernel:
    """Return a kernel's side that answers the first request with these bytes, as they are; `stays` until it is left."""

    def kernel(place: str) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(place)
            listener.listen(1)
            channel = listener.accept()[0]
        os.unlink(place)
        with channel, suppress(ConnectionError):  # whose other end may close at any message
            read_message(channel, REQUEST)
            for message in messages:
                channel.sendall(message)
            while stays and channel.recv(1 << 16):
                pass

    return kernel


def _head(length: int, kind: bytes = REPLY) -> bytes:
    return kind + length.to_bytes(8, "little")


def _reply(value: object) -> bytes:
    content = pack(value)
    return _head(len(content)) + content


def test_a_kernel_that_serves_answers_every_call(place: str) -> None:
    with _student(place, lambda path: serve(path, {"work": lambda x: x + 1})) as student:
        assert [_found(student) for _ in range(3)] == [4, 4, 4]


NO_ANSWERS = {
    "never": (lambda path: None, "ended before anything could be asked"),
    "leaves": (_answering(), "the connection ended"),
    "rubbish": (_answering(b"rubbish that is no head"), "no message"),
    "too long": (_answering(_head(MOST_BYTES + 1)), "no message"),
    "long question": (_answering(_head(100_000, b"W")), "no message"),
    "cut off": (_answering(_head(100) + b"cut off"), "the connection ended"),
    "no codec": (_answering(_head(3) + b"abc"), "cannot be read"),
    "no reply": (_answering(_reply(["x"])), "not in this lab's form"),
    "more than a reply": (
        _answering(_reply({"value": 4, "error": None, "output": "", "seconds": 0.0})),
        "not in this lab's form",
    ),
    "no error": (
        _answering(_reply({"value": None, "error": {"type": 3, "message": "", "where": ""}, "output": ""})),
        "not in this lab's form",
    ),
    "late": (_answering(stays=True), "the time was over"),
    "questions": (_answering(*[_head(1, b"W") + b"?"] * 50, stays=True), "the time was over"),
}


@pytest.mark.parametrize(("kernel", "said"), NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_what_is_no_answer_is_missed_and_says_why(place: str, kernel: Kernel, said: str) -> None:
    with _student(place, kernel, 0.2 if said == "the time was over" else SLACK_S) as student:
        assert said in _found(student)
        assert isinstance(_found(student), str), "the second call is answered at once"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a socket is connected to by its path there")
def test_a_link_to_somebody_else_s_socket_is_not_connected_to(place: str) -> None:
    def kernel(path: str) -> None:
        os.symlink(f"{path}-neighbour", path)
        time.sleep(0.3)
        os.unlink(path)

    with socket.socket(socket.AF_UNIX) as neighbour:
        neighbour.bind(f"{place}-neighbour")
        neighbour.listen()
        neighbour.setblocking(False)
        with _student(place, kernel) as student:
            assert "ended before anything could be asked" in _found(student)
        with pytest.raises(BlockingIOError):
            neighbour.accept()


class Counter:
    """What answers on the judge's side, and counts there."""

    ASKED = ("plus",)

    def __init__(self, start: int) -> None:
        self.calls, self.start = 0, start

    def plus(self, number: int) -> int:
        """Return the sum."""
        self.calls += 1
        return self.start + number


@pytest.fixture
def asks(monkeypatch: pytest.MonkeyPatch) -> str:
    """A probe that lets the student's `work` ask the judge's side."""
    monkeypatch.setattr(answer, "_PROBES", dict(answer._PROBES))

    @probe
    def asks(notebook: Notebook, *, name: str = "plus") -> object:
        return notebook["work"](lambda **data: notebook.ask(name, **data))

    return "asks"


def _twice(ask: Callable[..., int]) -> int:
    return ask(number=1) + ask(number=2)


def test_questions_are_answered_and_counted_on_the_judge_s_side(place: str, asks: str) -> None:
    with _student(place, lambda path: serve(path, {"work": _twice})) as student:
        replies = [student.call(asks, limit_s=0.0, serves=partial(Counter, start)) for start in (10, 10, 20)]
    assert [(reply.value, reply.served.calls) for reply in replies] == [(23, 2), (23, 2), (43, 2)]
    assert replies[0] is replies[1], "answered from memory, with its counter"


@pytest.mark.parametrize(("name", "data"), [("__init__", {"start": 5}), ("plus", {"number": "x"}), ("calls", {})])
def test_what_nobody_answers_raises_in_the_student_s_code_alone(asks: str, name: str, data: dict) -> None:
    def work(ask: Callable[..., int]) -> str:
        try:
            return f"answered {ask(**data)}"
        except AnswerError as error:
            return str(error)

    reply = Student.in_process({"work": work}).call(asks, name=name, serves=lambda: Counter(10))
    assert reply.value.startswith(("LookupError", "TypeError")) and reply.served.start == 10


def test_a_message_waits_for_no_longer_than_it_may() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs, pytest.raises(Exception, match="the time was over"):
        write_message(ours, REPLY, bytes(8 << 20), ends=time.monotonic() + 0.2)


_GETS_READY = """
from solutions.grading.judge.process import judge

def main(line):
    judge(line, None, None, meanwhile=lambda: line.send({"ready": True}))
"""


def test_a_judge_gets_ready_only_while_nobody_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_judge.py").write_text(_GETS_READY)
    monkeypatch.syspath_prepend(tmp_path)
    asked, ahead = (Process("a_judge", os.environ) for _ in range(2))
    asked.tell("this is nothing to judge")
    assert asked.offers == ahead.offers == {"environment": {}, "gpu": False}
    with pytest.raises(EngineError, match="AttributeError"):
        asked.heard(60)
    assert ahead.heard(60) == {"ready": True}
    ahead.end()


def test_artifacts_are_made_ready_only_while_nobody_measures_time() -> None:
    """Making them ready runs engines, and may build the reference's."""
    outer = MagicMock()
    outer.start().heard.return_value = {"notes": []}
    outer.reset_mock()
    with judging(outer.start, Asked("01_export", Path(), Path()), outer.gate) as judge:
        assert judge.prepared == {"notes": []}
    moments = [name for name, *_ in outer.mock_calls]
    made_ready = moments.index("start().heard")
    assert moments.index("gate.passed().__enter__") < made_ready < moments.index("gate.passed().__exit__")
    outer.gate.passed.assert_called_once_with(alone=False)


@pytest.mark.parametrize(
    ("raised", "fault"),
    [
        ("OSError(28, 'No space left on device')", CourseError),
        (f"SystemExit({MACHINE_FULL + ' memory is full'!r})", CourseError),
        ("ValueError('x')", EngineError),
    ],
)
def test_a_full_machine_is_no_submission_s_fault(
    raised: str, fault: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_judge.py").write_text(f"raise {raised}")
    monkeypatch.syspath_prepend(tmp_path)
    process = Process("broken_judge", os.environ)
    with pytest.raises(fault, match="disk or folder failed|memory is full" if fault is CourseError else "instructor"):
        process.heard(60)
