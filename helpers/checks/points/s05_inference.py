"""Step 5, TensorRTInference(engine_path): runs any engine with one input and one output, and cleans up.

A point plays a short script of calls on instances of the class, and knows the right result of each call.
"""

import tempfile
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from helpers.checks.missed import SLIPS, Missed
from helpers.checks.points.case import Case
from helpers.checks.points.pure import agree, short
from helpers.checks.points.task import Task
from helpers.checks.probes.answer import Notebook, probe
from helpers.checks.probes.cuda_calls import Watch, watched
from helpers.checks.probes.frames import said
from helpers.checks.probes.images import varied_images
from helpers.checks.probes.student import one_each
from helpers.engine.given import probe_engine
from helpers.tools.outputs import onnx_outputs
from helpers.toys.networks import EDGE, tiny_onnx
from trtcpu.api_changes import replacement

CLASS = "TensorRTInference"
MOST = 32
"""The largest batch of the profiles, as in the lab's engines of step 3 and later."""

_MANY = 24
"""Not the largest, so that a class that refuses that one loses no more than it must."""

PROMISES = (
    "makes one execution context",
    f"a batch of {MOST + 1}",
    f"The profile ends at {MOST}",
    "`AttributeError`, `NameError` and `TypeError` do not count",
)
"""Figures and fixed words in the notebook's text."""

_TOLERANCE = 5e-5  # of a row; FP32 engines differed from ONNX Runtime by 1e-6, scores in FP16 by 2e-4
_HELD = ("device buffers", "contexts", "engines")
_ALIVE = "live device buffers, contexts and engines: counted in the student's process"
_SLIPS = "AttributeError, NameError and TypeError do not count"

TASK = Task("inference_class", check="check_inference", takes=(CLASS,))
TASKS = (TASK,)

Step = dict[str, Any]
"""A call, such as {"do": "infer", "of": 0, "seed": 7, "shape": [8, 3, 224, 224]}; with "raises" it may raise."""


class Outcome(TypedDict):
    """The result of a call: its array, facts, or another value's type; the type and text of its exception."""

    value: np.ndarray | dict[str, int] | str
    raised: str


FORMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "plain": lambda x: x,
    "channels-last": lambda x: np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    "float64": lambda x: x.astype(np.float64),
}
"""Arrays that hold the same images in other forms."""


def images_of(seed: int = 0, shape: Sequence[int] = (), **how: Any) -> np.ndarray:
    """Return the images [N, C, H, W] of a step, or an array of ones if the shape has not four axes."""
    return varied_images(seed, shape[0], shape[1:]) if len(shape) == 4 else np.ones(shape, np.float32)


@dataclass
class _Player:
    """Does the steps of a script. `of` is an instance's number."""

    notebook: Notebook
    folder: Path
    plans: list[bytes]
    watch: Watch
    models: dict[int, Any] = field(default_factory=dict)
    results: list[tuple[Any, Any]] = field(default_factory=list)  # each with a copy made at the time

    def new(self, of: int = 0, alone: bool = False) -> None:
        """Make an instance; `alone`: from its own cell's names only. Without a plan there is no file."""
        path = self.folder / f"model{of}.engine"
        if of < len(self.plans):
            path.write_bytes(self.plans[of])
        self.models[of] = self.notebook.alone(CLASS)(str(path)) if alone else self.notebook[CLASS](path)

    def infer(self, of: int = 0, called: bool = False, form: str = "plain", times: int = 1, **images: Any) -> Any:
        """Return infer(images), or the `called` instance's result; pass the same array `times` times."""
        model, given = self.models[of], FORMS[form](images_of(**images))
        for _ in range(times):
            result = model(given) if called else model.infer(given)
            self.results.append((result, copy(result)))
        return result

    def block(self, of: int = 0, **images: Any) -> None:
        """Use an instance in a `with` block that raises."""
        with self.models[of] as model:
            model.infer(images_of(**images))
            raise RuntimeError("left early")

    def close(self, of: int = 0) -> None:
        """Close an instance."""
        self.models[of].close()

    def facts(self) -> dict[str, int]:
        """Return how many objects are alive on the device, and how many results changed after they were returned."""
        changed = sum(not np.array_equal(*pair, equal_nan=True) for pair in self.results)
        others = sum(getattr(result, "dtype", None) != np.float32 for result, _ in self.results)
        return {**self.watch.alive(), "results that changed": changed, "results not in float32": others}


@probe
def play(notebook: Notebook, *, plans: list[bytes], steps: list[Step]) -> list[Outcome]:
    """Do the steps in order; each is a method of `_Player`."""
    found: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder, watched() as watch:
        player = _Player(notebook, Path(folder), plans, watch)
        for step in steps:
            how = {name: value for name, value in step.items() if name not in ("do", "raises")}
            try:
                value = getattr(player, step["do"])(**how)
                plain = copy(value) if isinstance(value, (np.ndarray, dict)) else type(value).__name__
                found.append({"value": plain, "raised": ""})
            except (Exception, SystemExit) as error:
                if isinstance(error, NotImplementedError) or not step.get("raises"):
                    raise
                found.append({"value": "", "raised": f"{type(error).__name__}: {said(error)}"[:200]})
    return found


@dataclass(frozen=True)
class Small:
    """A small FP32 engine: its plan, its ONNX model, and an image's channels, height and width."""

    plan: bytes
    onnx: bytes
    image: tuple[int, int, int]

    def batch(self, case: Case, purpose: str, number: int, **how: Any) -> Step:
        """Return a call of `infer` with images drawn for this purpose."""
        return {"do": "infer", "shape": [number, *self.image], "seed": case.number(f"inference.{purpose}"), **how}


def usual(case: Case, purpose: str = "usual", least: int = 1, **network: Any) -> Small:
    """Return an engine like the lab's, a different one for each purpose: 3×224×224, ten classes, batches up to 32.

    `network` are other arguments of `tiny_onnx`.
    """
    onnx = tiny_onnx(case.number(f"inference.{purpose}"), **network)
    return Small(probe_engine(onnx, (least, 8, MOST)), onnx, network.get("image", (3, EDGE, EDGE)))


def played(case: Case, small: Small, *steps: Step, others: Sequence[bytes] = ()) -> list[Outcome]:
    """Return the results of the steps after instance 0 was made; raise Missed if a step raised that must not."""
    script = [{"do": "new"}, *steps]
    return one_each(case.call(play, plans=[small.plan, *others], steps=script).require(CLASS), script)[1:]


def judge(found: Any, expected: np.ndarray, what: str, advice: str) -> float:
    """Return the largest relative error of a row; raise Missed if `found` is not what the network computes."""
    if not isinstance(found, np.ndarray) or found.shape != expected.shape or found.dtype.kind not in "fiu":
        raise Missed(f"{what}: {short(expected)}", f"{short(found)}", "return one row per image")
    norm = partial(np.linalg.norm, axis=1)  # of each row, so that a single wrong one shows
    errors = norm(found - expected.astype(np.float64)) / np.maximum(norm(expected), 1e-12)
    wrong = ~(errors <= _TOLERANCE)
    if wrong.any():
        said = f"{wrong.sum()} of {len(wrong)} rows differ, the first is row {wrong.argmax()}"
        said += "; NaN: read before the copy was done" if np.isnan(found).any() else ""
        raise Missed(f"{what}: the network's outputs", said, advice)
    return float(errors.max())


def _right(case: Case, what: str, engines: Sequence[Small], *steps: Step) -> None:
    """Raise Missed if a batch of a script gets wrong outputs."""
    advice = "follow one image: host array, device buffer, execution, device buffer, synchronisation, host array"
    found = played(case, engines[0], *steps, others=[engine.plan for engine in engines[1:]])
    for step, outcome in zip(steps, found, strict=True):
        if step["do"] == "infer":
            expected = onnx_outputs(engines[step.get("of", 0)].onnx, images_of(**step))
            told = f"{what}, a batch of {len(expected)} {step.get('form', 'plain')} images"
            judge(outcome["value"], expected, told, advice)


@TASK.point("inference.outputs", 2.25, f"Correct outputs of two engines, at batches 1, 7 and {MOST}")
def outputs(case: Case) -> str:
    other = usual(case, "other", classes=17, image=(1, 40, 56), names=("pixels", "scores"))
    tried = {"the usual engine": usual(case), "an engine for 1×40×56 with other tensor names": other}
    for what, small in tried.items():
        _right(case, what, [small], *(small.batch(case, f"outputs.{number}", number) for number in (7, MOST, 1)))
    return f"the scores of {len(tried)} engines equal ONNX Runtime's"


@TASK.point("inference.inputs", 1, "Non-contiguous and float64 arrays work, and are not changed")
def inputs(case: Case) -> str:
    steps = [usual(case).batch(case, form, 5, form=form, times=2) for form in FORMS]
    _right(case, "each array passed twice", [usual(case)], *steps)
    return ", ".join(FORMS)


@TASK.point("inference.copies", 1, "Results are float32 arrays that no later call changes")
def copies(case: Case) -> str:
    batches = [usual(case).batch(case, f"copies.{index}", number) for index, number in enumerate((7, 7, _MANY, 7, 7))]
    facts = played(case, usual(case), *batches, {"do": "close"}, {"do": "facts"})[-1]["value"]
    right = {"results not in float32": 0, "results that changed": 0}
    agree(facts, right, f"{len(batches)} calls and close()", "return a float32 copy, not the reused host buffer")
    return f"{len(batches)} results unchanged after the last call and after close()"


def _in_a_row(case: Case, purpose: str, numbers: Sequence[int]) -> str:
    steps = [usual(case).batch(case, f"{purpose}.{index}", number) for index, number in enumerate(numbers)]
    _right(case, f"batches {list(numbers)} in a row", [usual(case)], *steps)
    return f"batches {list(numbers)} in a row, each right"


@TASK.point("inference.independent", 0.75, "A result does not depend on earlier calls")
def independent(case: Case) -> str:
    return _in_a_row(case, "independent", (7, 7, _MANY, 7, 1, 7))


@TASK.point("inference.synchronised", 1, "The output is read after the stream has finished")
def synchronised(case: Case) -> str:
    return f"{_in_a_row(case, 'synchronised', [MOST] * 3)}, although outputs arrive only after a synchronisation"


@TASK.point("inference.two_instances", 0.75, "Two instances with different engines work side by side")
def two_instances(case: Case) -> str:
    pair = usual(case), usual(case, "second")
    turns = [pair[of].batch(case, f"two.{number}", number, of=of) for of, number in ((0, 3), (1, 4), (0, 5), (1, 6))]
    steps = [{"do": "new", "of": 1}, *turns, {"do": "close", "of": 1}, pair[0].batch(case, "two.7", 7)]
    _right(case, "two instances taking turns", pair, *steps)
    return "two engines taking turns; one closed, the other still works"


def _on_purpose(outcome: Outcome, what: str, advice: str) -> str:
    """Return the exception's text; raise Missed if there is none, or it comes from a slip."""
    told = outcome["raised"]
    if told.partition(":")[0] in ("", *SLIPS):
        try_this = replacement(told) or f"{advice}, and raise" + f"; {_SLIPS}" * bool(told)
        raise Missed(f"your own exception {what}", told or "none", try_this)
    return told


def _refused(case: Case, small: Small, figure: int, *tries: Sequence[int]) -> str:
    """Return evidence that each shape is rejected, the first with its `figure` in the message."""
    found = played(case, small, *({"do": "infer", "shape": list(shape), "raises": True} for shape in tries))
    advice = "compare the array's shape with the engine's, check what set_input_shape returns"
    told = [
        _on_purpose(*pair, advice) for pair in zip(found, (f"for images {[*shape]}" for shape in tries), strict=True)
    ]
    if str(figure) not in told[0]:
        raise Missed(f"an exception that names the shape, {[*tries[0]]}", told[0], "put the shape into its message")
    return f"{len(tries)} shapes rejected, such as {[*tries[0]]}: {told[0]}"


@TASK.point("inference.shapes", 0.5, "Images of a wrong shape raise an exception that names the shape")
def shapes(case: Case) -> str:
    edge = int(case.random("inference.edge").integers(150, 220))
    tries = ((2, 3, edge, edge), (2, EDGE, EDGE, 3), (3, EDGE, EDGE), (2, 1, EDGE, EDGE), (2, 3, 1, 1))
    return _refused(case, usual(case), edge, *tries)


@TASK.point("inference.batches", 0.5, f"A batch outside the profile, such as {MOST + 1}, raises too")
def batches(case: Case) -> str:
    small, beyond = usual(case, "batches", least=2), MOST + int(case.random("inference.beyond").integers(1, 9))
    return _refused(case, small, beyond, (beyond, *small.image), (1, *small.image))


@TASK.point("inference.loading", 0.25, "It loads an engine file, and raises if that is missing or no engine")
def loading(case: Case) -> str:
    small, new = usual(case), {"do": "new", "alone": True}
    loaded = case.call(play, plans=[small.plan], steps=[new, small.batch(case, "loading", 3)])
    if loaded.error and loaded.error["type"] == "NameError":
        raise Missed(
            "a class that needs only its own cell",
            loaded.error["message"],
            "put its imports and helpers into its cell: steps 6 and 7 load only that cell",
        )
    loaded.require(CLASS)
    said = []
    for what, plans in {
        "a missing file": [],
        "a file that is not an engine": [b"this is no engine" * 64],
    }.items():
        (outcome,) = one_each(case.call(play, plans=plans, steps=[new | {"raises": True}]).require(CLASS), [new])
        said.append(_on_purpose(outcome, f"for {what}", "check what deserialize_cuda_engine returns"))
    return "; ".join(said)


@TASK.point("inference.interface", 0.5, "It works as model(images), and in a with block that closes it")
def interface(case: Case) -> str:
    one = usual(case).batch(case, "interface", 1)
    steps = [one, one | {"called": True}, one | {"do": "block", "raises": True}, one | {"raises": True}]
    given, called, block, after = played(case, usual(case), *steps)
    found = {"returned": called["value"], "left the block": block["raised"], "infer then raises": after["raised"] > ""}
    right = {"returned": given["value"], "left the block": "RuntimeError: left early", "infer then raises": True}
    advice = "return infer(images) in __call__; in __exit__ always call close(), and return None"
    agree(found, right, "model(images), and a with block that raises", advice, rtol=1e-4)
    return "called, and closed by a with block that raised"


@TASK.point("inference.closed", 0.5, "After close(), infer raises and a second close() does nothing")
def closed(case: Case) -> str:
    one, close = usual(case).batch(case, "closed", 7), {"do": "close"}
    *_, again, after = played(case, usual(case), one, close, close | {"raises": True}, one | {"raises": True})
    agree({"raised": again["raised"]}, {"raised": ""}, "a second close()", "do nothing if it is closed")
    return _on_purpose(after, "when infer is called after close()", "check whether it is closed")


@TASK.point("inference.memory", 0.75, "close() and a with block free buffers, context and engine", reported=_ALIVE)
def memory(case: Case) -> str:
    small = usual(case, "memory")
    one = small.batch(case, "memory", 7)
    second = {"do": "new", "of": 1}, one | {"do": "block", "of": 1, "raises": True}
    *_, last = played(case, small, one, {"do": "close"}, *second, {"do": "facts"}, others=[small.plan])
    advice = "call free() on every device buffer, and set context and engine to None"
    agree(last["value"], dict.fromkeys(_HELD, 0), "still alive after close() and a with block", advice)
    return "two instances, closed by close() and by a with block, left nothing on the device"


@TASK.point("inference.calls", 0.25, "One context serves all calls, and no call leaks a buffer", reported=_ALIVE)
def calls(case: Case) -> str:
    batches, facts = [usual(case).batch(case, f"calls.{index}", 5) for index in range(8)], {"do": "facts"}
    _, _, early, *_, late = played(case, usual(case), *batches[:2], facts, *batches[2:], facts)
    advice = "create the context in the constructor; allocate in allocate_buffers, or free what a call allocates"
    right = {kind: early["value"][kind] for kind in _HELD} | {"contexts made": 1}
    agree(late["value"], right, "alive after 8 calls, as after 2", advice)
    return "8 calls leak no buffer, and share one context"
