"""Step 5, TensorRTInference(engine_path): runs any engine of one input and one output, and cleans up.

A point plays a short script of calls on instances of the class, and says what each call must give.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from helpers.checks.missed import SLIPS, Missed
from helpers.checks.points.case import Case
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.cuda_calls import watched
from helpers.checks.probes.frames import said
from helpers.checks.probes.images import varied_images
from helpers.checks.probes.student import one_each
from helpers.engine.given import probe_engine
from helpers.tools.outputs import onnx_outputs
from helpers.toys.networks import EDGE, tiny_onnx
from trtcpu.api_changes import replacement

CLASS = "TensorRTInference"
MOST = 32
"""The largest batch of the profiles, as in the lab's engines from step 3 on."""

PROMISES = (
    "makes one execution context",
    f"a batch of {MOST + 1}",
    f"The profile ends at {MOST}",
    "`AttributeError`, `NameError` and `TypeError` do not count",
)
"""What the notebook's text says in figures and fixed words."""

_TOLERANCE = 5e-5  # of a row; FP32 engines were seen to differ from ONNX Runtime by 1e-6, scores in FP16 by 2e-4
_CALLS, _MADE = 6, "contexts made"
_ALIVE = "device buffers, contexts and engines that are alive: counted in the student's process"
_SLIPS = "AttributeError, NameError and TypeError do not count"

TASK = Task("inference_class", check="check_inference", takes=(CLASS,))
TASKS = (TASK,)

Step = dict[str, Any]
"""A call, such as {"do": "infer", "of": 0, "seed": 7, "shape": [8, 3, 224, 224]}; one with "raises" may raise."""


class Outcome(TypedDict):
    """What a call gave: its array, or another value's type; what it raised, and its text; what was alive."""

    value: np.ndarray | str
    raised: str
    message: str
    alive: dict[str, int]


FORMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "plain": lambda x: x,
    "a channels-last view": lambda x: np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    "float64": lambda x: x.astype(np.float64),
}
"""Arrays that hold the same images in another way."""


def images_of(seed: int = 0, shape: Sequence[int] = (), **how: Any) -> np.ndarray:
    """Return the images [N, C, H, W] of a step, or ones of another number of axes."""
    return varied_images(seed, shape[0], shape[1:]) if len(shape) == 4 else np.ones(shape, np.float32)


class _LeftEarlyError(Exception):
    """Raised inside a `with` block."""


@dataclass
class _Player:
    """Does the steps of a script. `of` is an instance's number."""

    notebook: Notebook
    folder: Path
    plans: list[bytes]
    models: dict[int, Any] = field(default_factory=dict)
    given: Any = None
    results: list[Any] = field(default_factory=list)

    def new(self, of: int = 0, alone: bool = False) -> None:
        """Make an instance; `alone` has the names of its own cell only. Where there is no plan, there is no file."""
        path = self.folder / f"model{of}.engine"
        if of < len(self.plans):
            path.write_bytes(self.plans[of])
        self.models[of] = self.notebook.alone(CLASS)(str(path)) if alone else self.notebook[CLASS](path)

    def infer(self, of: int = 0, called: bool = False, form: str = "plain", again: bool = False, **images: Any) -> Any:
        """Return infer(images), or what the instance gives when `called`; `again` hands over the last call's array."""
        self.given = self.given if again else FORMS[form](images_of(**images))
        self.results.append(self.models[of](self.given) if called else self.models[of].infer(self.given))
        return self.results[-1]

    def block(self, of: int = 0, leaves: bool = False, **images: Any) -> None:
        """Use an instance in a `with` block that `leaves` by an exception, or ends."""
        with self.models[of] as model:
            model.infer(images_of(**images))
            if leaves:
                raise _LeftEarlyError

    def close(self, of: int = 0) -> None:
        """Close an instance."""
        self.models[of].close()

    def result(self, index: int) -> Any:
        """Return an earlier call's array as it is now."""
        return self.results[index]


@probe
def play(notebook: Notebook, *, plans: list[bytes], steps: list[Step]) -> list[Outcome]:
    """Do the steps in order, each a method of `_Player`, or "alive": what is alive on the device and in TensorRT."""
    found: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder, watched() as watch:
        player = _Player(notebook, Path(folder), plans)
        for step in steps:
            how = {name: value for name, value in step.items() if name not in ("do", "raises")}
            outcome: Outcome = {"value": "", "raised": "", "message": "", "alive": {}}
            try:
                if step["do"] == "alive":
                    outcome["alive"] = watch.alive()
                else:
                    value = getattr(player, step["do"])(**how)
                    outcome["value"] = value.copy() if isinstance(value, np.ndarray) else type(value).__name__
            except (Exception, SystemExit) as error:
                if isinstance(error, NotImplementedError) or not step.get("raises"):
                    raise
                outcome |= {"raised": type(error).__name__, "message": said(error)}
            found.append(outcome)
    return found


@dataclass(frozen=True)
class Small:
    """A small FP32 engine: its plan, the ONNX model that it was built from, and an image's channels, height, width."""

    plan: bytes
    onnx: bytes
    image: tuple[int, int, int]

    def batch(self, case: Case, purpose: str, number: int, **how: Any) -> Step:
        """Return a call of `infer` with images of the purpose's own."""
        return self.shaped(number, *self.image, seed=case.number(f"inference.{purpose}"), **how)

    def shaped(self, *shape: int, **how: Any) -> Step:
        """Return a call of `infer` with images of any shape."""
        return {"do": "infer", "shape": list(shape), **how}


def usual(case: Case, purpose: str = "usual", least: int = 1) -> Small:
    """Return an engine like the lab's: 3×224×224, ten classes, batches up to 32; another one for each purpose."""
    onnx = tiny_onnx(case.number(f"inference.{purpose}"))
    return Small(probe_engine(onnx, (least, 8, MOST)), onnx, (3, EDGE, EDGE))


def other(case: Case) -> Small:
    """Return an engine of one channel, another size, other names and 17 classes."""
    image = (1, 40, 56)
    onnx = tiny_onnx(case.number("inference.other"), 17, image=image, names=("pixels", "scores"))
    return Small(probe_engine(onnx, (1, 3, MOST)), onnx, image)


def played(case: Case, small: Small, *steps: Step, others: Sequence[bytes] = ()) -> list[Outcome]:
    """Return what the steps gave after instance 0 was made; raise Missed where one raised that must not."""
    script = [{"do": "new"}, *steps]
    return one_each(case.call(play, plans=[small.plan, *others], steps=script).require(CLASS), script)[1:]


def row_errors(outputs: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return each row's relative L2 error, [N]: a single wrong row must not drown among right ones."""
    expected = expected.astype(np.float64)  # memory that was never written may hold numbers whose square overflows
    return np.linalg.norm(outputs - expected, axis=1) / np.maximum(np.linalg.norm(expected, axis=1), 1e-12)


def judge(found: np.ndarray | str, expected: np.ndarray, what: str, advice: str) -> float:
    """Return the largest relative error of a row; raise Missed where `found` is not what the network computes."""
    if not isinstance(found, np.ndarray) or found.shape != expected.shape or found.dtype.kind not in "fiu":
        said = f"an array of shape {found.shape}" if isinstance(found, np.ndarray) else f"a {found}"
        raise Missed(f"{what}: an array of numbers of shape {expected.shape}", said, "return one row for each image")
    wrong = ~((errors := row_errors(found, expected)) <= _TOLERANCE)
    if wrong.any():
        said = f"{wrong.sum()} of {len(wrong)} rows are others, the first is row {wrong.argmax()}"
        said += "; NaN: read before it had arrived" if np.isnan(found).any() else ""
        raise Missed(f"{what}: the network's outputs for these images", said, advice)
    return float(errors.max())


def _right(case: Case, small: Small, what: str, *steps: Step, others: Sequence[Small] = ()) -> float:
    """Return the largest error of a script's batches; one plain batch goes first, so that its fault is told once."""
    _judged(case, "the first batch", [usual(case)], usual(case).batch(case, "plain", 8))
    return _judged(case, what, [small, *others], *steps)


def _judged(case: Case, what: str, engines: list[Small], *steps: Step) -> float:
    found = played(case, engines[0], *steps, others=[engine.plan for engine in engines[1:]])
    advice, worst = "follow one image: host array, device buffer, execution, device buffer, wait, host array", 0.0
    for step, outcome in zip(steps, found, strict=True):
        if step["do"] == "infer":
            expected = onnx_outputs(engines[step.get("of", 0)].onnx, images_of(**step))
            told = f"{what}, {step.get('form', 'plain')} images, a batch of {len(expected)}"
            worst = max(worst, judge(outcome["value"], expected, told, advice))
    return worst


@TASK.point("inference.outputs", 2.25, f"Two engines give their outputs at batches 1, 7 and {MOST}")
def outputs(case: Case) -> str:
    tried = {"the usual engine": usual(case), "an engine of one channel, 40×56, with other names": other(case)}
    worst = 0.0
    for what, small in tried.items():
        steps = [small.batch(case, f"outputs.{number}", number) for number in (7, MOST, 1)]
        worst = max(worst, _right(case, small, what, *steps))
    return f"{len(tried)} engines, relative error {worst:.0e}"


@TASK.point("inference.inputs", 1, "Arrays that are not contiguous, or float64, give the same, and stay as they were")
def inputs(case: Case) -> str:
    small = usual(case)
    steps = [small.batch(case, form, 5, form=form, again=again) for form in FORMS for again in (False, True)]
    _right(case, small, "each array twice", *steps)
    return ", ".join(FORMS)


@TASK.point("inference.copies", 1, "Results are float32 arrays of their own, which no later call changes")
def copies(case: Case) -> str:
    small = usual(case)
    steps = [small.batch(case, f"copies.{index}", number) for index, number in enumerate((7, 7, MOST, 7, 7))]
    found = played(case, small, *steps, {"do": "close"}, *({"do": "result", "index": index} for index in range(5)))
    for outcomes in zip(found[:5], found[6:], strict=True):
        first, later = (outcome["value"] for outcome in outcomes)
        for array in (first, later):
            if not isinstance(array, np.ndarray) or array.dtype != np.float32:
                kind = f"an array of {array.dtype}" if isinstance(array, np.ndarray) else f"a {array}"
                raise Missed("results as NumPy arrays of float32", kind, "convert the outputs")
        if not np.array_equal(first, later, equal_nan=True):
            advice = "return a copy, not the buffer that the next call fills again"
            raise Missed("a result that stays as it was returned", "a later call changed it", advice)
    return f"{len(steps)} results unchanged after the last call and after close()"


@TASK.point("inference.independent", 0.75, "A result does not depend on the calls before")
def independent(case: Case) -> str:
    small, numbers = usual(case), (7, 7, MOST, 7, 1, 7)
    steps = [small.batch(case, f"independent.{index}", number) for index, number in enumerate(numbers)]
    _right(case, small, f"batches {list(numbers)} in a row", *steps)
    return f"batches {list(numbers)} in a row, each right"


@TASK.point("inference.synchronised", 1, "The output is read after the stream has finished")
def synchronised(case: Case) -> str:
    small = usual(case)
    steps = [small.batch(case, f"synchronised.{index}", MOST) for index in range(3)]
    _right(case, small, "outputs that arrive only once they were waited for", *steps)
    return f"3 batches of {MOST}, whose outputs arrive only once they were waited for"


@TASK.point("inference.two_instances", 0.75, "Two instances work side by side, each with an engine of its own")
def two_instances(case: Case) -> str:
    pair = usual(case), usual(case, "second")
    turns = [pair[of].batch(case, f"two.{number}", number, of=of) for of, number in ((0, 3), (1, 4), (0, 5), (1, 6))]
    last = pair[0].batch(case, "two.7", 7)
    steps = [{"do": "new", "of": 1}, *turns, {"do": "close", "of": 1}, last]
    _right(case, pair[0], "two instances in turn", *steps, others=pair[1:])
    return "two engines called in turn; one closed, the other still works"


def _refused(case: Case, small: Small, tries: Sequence[tuple[Sequence[int], str]]) -> str:
    """Return evidence that each shape is refused with its figure in the message, and that the instance works on."""
    plain = small.batch(case, "refusals", 7)
    found = played(case, small, plain, *(small.shaped(*shape, raises=True) for shape, _ in tries), plain)
    advice = "compare the array's shape with the engine's, look at what set_input_shape returns, raise ValueError"
    for (shape, figure), outcome in zip(tries, found[1:-1], strict=True):
        if not outcome["raised"]:
            raise Missed(f"an exception for images of shape {list(shape)}", "none", advice)
        if figure not in outcome["message"]:
            told = f"{outcome['raised']}: {outcome['message'][:160]}"
            raise Missed(f"an exception that names the shape it found, {list(shape)}", told, advice)
    _same(found[0], found[-1], "the same scores after a refusal", "check the shape before you change anything")
    return f"{len(tries)} refused, such as {list(tries[0][0])}: {found[1]['message'][:80]}"


def _same(one: Outcome, two: Outcome, expected: str, advice: str) -> None:
    """Raise Missed where two calls with the same images gave different arrays."""
    values = [outcome["value"] for outcome in (one, two)]
    kinds = [(v.shape, v.dtype.kind in "fiu") if isinstance(v, np.ndarray) else (v, False) for v in values]
    if kinds[0] != kinds[1] or not kinds[0][1] or not np.allclose(*values, rtol=1e-4, equal_nan=True):
        raise Missed(expected, f"{kinds[0][0]} and {kinds[1][0]}, or other numbers", advice)


@TASK.point("inference.shapes", 0.5, "Images of another shape give an exception that names it")
def shapes(case: Case) -> str:
    edge = int(case.random("inference.edge").integers(150, 220))
    others = ((2, EDGE, EDGE, 3), (3, EDGE, EDGE), (2, 1, EDGE, EDGE), (2, 3, 1, 1))
    return _refused(case, usual(case), [((2, 3, edge, edge), str(edge)), *((shape, "") for shape in others)])


@TASK.point("inference.batches", 0.5, f"So does a batch outside the profile, such as {MOST + 1}")
def batches(case: Case) -> str:
    small, beyond = usual(case, "batches", least=2), MOST + int(case.random("inference.beyond").integers(1, 9))
    return _refused(case, small, [((beyond, *small.image), str(beyond)), ((1, *small.image), "")])


def _on_purpose(outcome: Outcome, what: str, advice: str) -> str:
    """Return what was raised; raise Missed where nothing was, or by a slip."""
    told = f"{outcome['raised']}: {outcome['message'][:100]}" if outcome["raised"] else "none"
    if not outcome["raised"] or outcome["raised"] in SLIPS:
        raise Missed(f"an exception that you raise on purpose {what}", told, replacement(told) or advice)
    return told


@TASK.point("inference.loading", 0.25, "It loads a file, and raises for one that is missing or no engine")
def loading(case: Case) -> str:
    small, new = usual(case), {"do": "new", "alone": True}
    loaded = case.call(play, plans=[small.plan], steps=[new, small.batch(case, "loading", 3)])
    if loaded.error and loaded.error["type"] == "NameError":
        advice = "steps 6 and 7 load the text of this cell alone: put its imports and helpers into it"
        raise Missed("the class to run with what its own cell defines", loaded.error["message"], advice)
    loaded.require(CLASS)
    advice, said = f"look at what deserialize_cuda_engine returns, and raise; {_SLIPS}", []
    for what, plans in (("a file that is not there", []), ("a file that is no engine", [b"this is no engine" * 64])):
        (outcome,) = one_each(case.call(play, plans=plans, steps=[new | {"raises": True}]).require(CLASS), [new])
        said.append(_on_purpose(outcome, f"for {what}", advice))
    return "; ".join(said)


@TASK.point("inference.interface", 0.5, "It works as model(images) and in a with block, which ends like close()")
def interface(case: Case) -> str:
    small = usual(case)
    one, after = small.batch(case, "interface", 1), small.batch(case, "interface", 1, raises=True)
    blocks = one | {"do": "block"}, one | {"do": "block", "of": 1, "leaves": True, "raises": True}
    steps = [one, one | {"called": True}, blocks[0], after, {"do": "new", "of": 1}, blocks[1], after | {"of": 1}]
    found = played(case, small, *steps, others=[small.plan])
    _same(found[0], found[1], "model(images) to give what infer gives", "return infer(images), and no more")
    if found[5]["raised"] != _LeftEarlyError.__name__:
        advice = "__exit__ that returns something true swallows the exception; return nothing"
        raise Missed("an exception in the block to go on", found[5]["raised"] or "it was swallowed", advice)
    for outcome, block in ((found[3], "a with block"), (found[6], "a with block that raises")):
        if not outcome["raised"]:
            raise Missed(f"{block} to end like close()", "infer still works", "call close() in __exit__, always")
    return "called, and closed by two with blocks"


@TASK.point("inference.closed", 0.5, "After close() infer raises, and a second close() does nothing")
def closed(case: Case) -> str:
    small = usual(case)
    one, close = small.batch(case, "closed", 7), {"do": "close"}
    *_, again, after = played(case, small, one, close, close | {"raises": True}, one | {"raises": True})
    if again["raised"]:
        told = f"{again['raised']}: {again['message'][:100]}"
        raise Missed("a second close() to do nothing", told, "remember that it is closed")
    return _on_purpose(after, "when infer is called after close()", f"look whether it is closed, and raise; {_SLIPS}")


@TASK.point("inference.memory", 0.75, "close() and a with block free buffers, context and engine", reported=_ALIVE)
def memory(case: Case) -> str:
    small, alive, closes = usual(case, "memory"), {"do": "alive"}, {"do": "close"}
    one = small.batch(case, "memory", 7)
    by_block = {"do": "new", "of": 1}, one | {"do": "block", "of": 1}, alive
    for outcome in played(case, small, one, closes, alive, *by_block, others=[small.plan]):
        if left := [f"{number} {kind}" for kind, number in outcome["alive"].items() if number and kind != _MADE]:
            advice = "call free() on every device buffer; set context and engine to None"
            raise Missed("nothing of a closed instance on the device", ", ".join(left), advice)
    return "two instances, closed by close() and by a with block, left nothing on the device"


@TASK.point("inference.calls", 0.25, "One context serves all calls, and calls leave no buffer behind", reported=_ALIVE)
def calls(case: Case) -> str:
    small, alive = usual(case), {"do": "alive"}
    steps = [small.batch(case, f"calls.{index}", 5) for index in range(2 + _CALLS)]
    found = played(case, small, *steps[:2], alive, *steps[2:], alive)
    before, after = (found[index]["alive"] for index in (2, -1))
    if (made := after.get(_MADE)) != 1:
        raise Missed("one execution context for an instance", f"{made} made", "make it in the constructor")
    if grown := [
        f"{after[kind]} {kind}, {count} before" for kind, count in before.items() if after.get(kind, 0) > count
    ]:
        advice = "allocate in allocate_buffers, or free what a call allocates"
        raise Missed(f"nothing more than before after {_CALLS} calls", ", ".join(grown), advice)
    return f"{_CALLS} calls leave no buffer, and need no other context"
