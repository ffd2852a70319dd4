"""The judge's door: whatever the kernel's side writes, late, long or never, costs an answer and nothing else."""

import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from helpers.checks.missed import Missed
from helpers.checks.probes import answer
from helpers.checks.probes.answer import AnswerError, Notebook, probe
from helpers.checks.probes.channel import REPLY, REQUEST, read_message, write_message
from helpers.checks.probes.codec import MOST_BYTES, pack
from helpers.checks.probes.serve import serve
from helpers.checks.probes.student import Student
from solutions.grading.faults import CourseError
from solutions.grading.judge.handle import Process
from solutions.grading.judge.process import SLACK_S, Door
from solutions.sandbox.watch import MACHINE_FULL
from trtcpu.errors import EngineError

Kernel = Callable[[str], None]


@pytest.fixture
def place() -> Iterator[str]:
    """A path for a socket: short, as sockets need it."""
    with tempfile.TemporaryDirectory() as folder:
        yield f"{folder}/door"


def _asked(place: str, kernel: Kernel, *, slack_s: float = SLACK_S, calls: int = 1, **call: object) -> list[object]:
    """Return what each of some calls gives, a value or what was found in its place, of a kernel's side `kernel`."""
    over, told = os.pipe()

    def run() -> None:
        try:
            kernel(place)
        finally:
            os.write(told, b"the cell ended\n")

    found: list[object] = []
    with Door(place, over, slack_s) as door:
        thread = threading.Thread(target=run)
        thread.start()
        door.wait()
        student = Student(door.send, lambda name: None)
        for _ in range(calls):
            try:
                found.append(student.call("called", fresh=True, name="work", argument=3, limit_s=0.0, **call).value)
            except Missed as missed:
                found.append(missed.found)
    thread.join(20)
    os.close(over), os.close(told)
    assert not thread.is_alive() and not Path(place).exists()
    return found


@contextmanager
def _listening(place: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen(1)
        channel = listener.accept()[0]
    os.unlink(place)
    with channel:
        yield channel


def _answering(*messages: bytes, stays: bool = False) -> Kernel:
    """Return a kernel's side that answers the first request with these bytes, as they are; `stays` until it is left."""

    def kernel(place: str) -> None:
        with _listening(place) as channel, suppress(ConnectionError):  # whose other end may close at any message
            read_message(channel, REQUEST)
            for message in messages:
                channel.sendall(message)
            while stays and channel.recv(1 << 16):
                pass

    return kernel


def _head(length: int, kind: bytes = REPLY) -> bytes:
    return kind + length.to_bytes(8, "little")


def test_a_kernel_that_serves_answers_every_call(place: str) -> None:
    assert _asked(place, lambda path: serve(path, {"work": lambda x: x + 1}), calls=3) == [4, 4, 4]


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (lambda path: None, "ended before anything could be asked"),
        (_answering(), "the connection ended"),
        (_answering(b"rubbish that is no head"), "no message"),
        (_answering(_head(MOST_BYTES + 1)), "no message"),
        (_answering(_head(100_000, b"W")), "no message"),
        (_answering(_head(100) + b"cut off"), "the connection ended"),
        (_answering(_head(3) + b"abc"), "cannot be read"),
        (_answering(_head(len(pack(["x"]))) + pack(["x"])), "none of this lab's"),
        (_answering(stays=True), "the time was over"),
        (_answering(*[_head(1, b"W") + b"?"] * 50, stays=True), "the time was over"),
    ],
    ids=[
        "never",
        "leaves",
        "rubbish",
        "too long",
        "long question",
        "cut off",
        "no codec",
        "no reply",
        "late",
        "questions",
    ],
)
def test_what_is_no_answer_is_missed_and_says_why(place: str, kernel: Kernel, said: str) -> None:
    found = _asked(place, kernel, slack_s=0.2 if said == "the time was over" else SLACK_S, calls=2)
    assert said in found[0]
    assert isinstance(found[1], str), "the second call is answered at once"


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
        assert "ended before anything could be asked" in _asked(place, kernel)[0]
        with pytest.raises(BlockingIOError):
            neighbour.accept()


@pytest.mark.parametrize(
    "reply",
    [
        {"value": 4, "error": None, "output": "", "seconds": 0.0},
        {"value": None, "error": {"type": 3, "message": "", "where": ""}, "output": ""},
    ],
)
def test_a_reply_has_its_form_or_is_none(place: str, reply: dict) -> None:
    content = pack(reply)
    assert "none of this lab's" in _asked(place, _answering(_head(len(content)) + content))[0]


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


def test_questions_are_answered_and_counted_on_the_judge_s_side(asks: str) -> None:
    from functools import partial

    student = Student.in_process({"work": _twice})
    reply = student.call(asks, serves=partial(Counter, 10))
    assert reply.value == 23 and reply.served.calls == 2
    assert student.call(asks, serves=partial(Counter, 10)) is reply, "answered from memory, with its counter"
    assert student.call(asks, serves=partial(Counter, 20)).value == 43


def test_questions_pass_through_the_door(place: str, asks: str) -> None:
    over, told = os.pipe()
    with Door(place, over, 5.0) as door:
        thread = threading.Thread(target=serve, args=(place, {"work": _twice}))
        thread.start()
        door.wait()
        reply = Student(door.send, lambda name: None).call(asks, limit_s=0.0, serves=lambda: Counter(10))
    thread.join(20)
    os.close(over), os.close(told)
    assert reply.value == 23 and reply.served.calls == 2


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


@pytest.mark.parametrize("ahead", [True, False])
def test_a_judge_gets_ready_only_while_nobody_asks(
    ahead: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_judge.py").write_text(_GETS_READY)
    monkeypatch.syspath_prepend(tmp_path)
    process = Process("a_judge", os.environ)
    if not ahead:
        process.tell("this is nothing to judge")
    assert process.offers == {"environment": {}, "gpu": False}
    if ahead:
        assert process.heard(60) == {"ready": True}
        process.end()
    else:
        with pytest.raises(EngineError, match="AttributeError"):
            process.heard(60)


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
