"""The points of every function that builds an engine, written once. A step gives its function, profile and network.

    FP16 = Builder("build_engine_fp16", "fp16", (1, 8, 8))
    ENGINE = Task("fp16_engine", check="check_fp16_engine", takes=(FP16.function,))
    FP16.ask(ENGINE, plan=0.5, written=0.25, profile=0.25, half_precision=1.5)      # points and their worth

solutions/checks/trusted/builder.py adds the points that need real outputs, in the same form.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from helpers.checks.missed import Missed
from helpers.checks.points import builders
from helpers.checks.points.case import Case
from helpers.checks.points.task import Task
from helpers.checks.probes.builds import build_engine, failing_build
from helpers.checks.probes.onnx_files import unsupported_onnx
from helpers.checks.probes.student import Reply
from helpers.toys.networks import tiny_onnx
from trtcpu.api_changes import replacement

_FORGED = "the file at engine_path: the student's process reads it back"
FAILED = "the exception when a build is made to fail, and the file that is left: the student's process says so"
_LIMIT = "the workspace limit of the build: TensorRT's plans do not hold it"


@dataclass(frozen=True)
class Builder:
    """A function `function(onnx_path, engine_path, *more, **options)` of the notebook, and what it is tested with.

    Args:
        function: its name.
        purpose: the start of its points' ids.
        batches: least, best and largest batch of its one profile.
        network: makes a model's ONNX bytes from a seed.
        ends: the names of the model's inputs and outputs.
        options: its keyword arguments, or a function of the case that returns them.
        extra: the probe `extra(notebook, folder, seed)` that makes further arguments on the student's side if they
            are not plain data: a calibrator, the path of a cache.
    """

    function: str
    purpose: str
    batches: tuple[int, int, int] = (1, 8, 32)
    network: Callable[[int], bytes] = tiny_onnx
    ends: builders.Ends = (("input",), ("output",))
    options: Mapping[str, Any] | Callable[[Case], Mapping[str, Any]] = field(default_factory=dict)
    extra: Callable[..., Any] | None = None

    def model(self, case: Case, which: str = "network") -> bytes:
        """Return a small model whose weights the case's seed decides."""
        return self.network(case.number(f"{self.purpose}.{which}"))

    def built(self, case: Case, onnx: bytes = b"", *, fresh: bool = False, **how: Any) -> builders.Built:
        """Return the answer of `build_engine` for a model, by default the case's; `fresh` builds again.

        `how` overrides `options`, or is `before`: a model to build first at the same paths.
        """
        asked = {"onnx": onnx or self.model(case), **self._arguments(case), **how}
        return case.call(build_engine, fresh=fresh, **asked).require(self.function)

    def plan(self, case: Case) -> bytes:
        """Return the built engine, returned or in the file."""
        return builders.plan_of(self.built(case), self.function)

    def ask(self, task: Task, **worth: float) -> None:
        """Give the task the points named in `worth`, in its order."""
        for name, points in worth.items():
            title, judge, reported = self._points(worth)[name]
            task.point(f"{self.purpose}.{name}", points, title, reported)(judge)

    def _points(self, worth: Mapping[str, float]) -> dict[str, tuple[str, Callable[[Case], str], str]]:
        least, best, most = self.batches
        profile = f"One profile: batches {least} to {most}, tuned for {best}"
        stays = "A failed build raises, and keeps the earlier engine file"
        return {
            "plan": (
                "A serialized engine is returned",
                lambda case: builders.returned(self.built(case), self.function, self.ends),
                "",
            ),
            "written": (
                "The engine is written to engine_path",
                lambda case: builders.written(self.built(case), alone="plan" not in worth),
                _FORGED,
            ),
            "profile": (profile, lambda case: builders.profile_is(self.plan(case), self.batches), ""),
            "half_precision": (
                "Built for half precision",
                lambda case: builders.runs_in("FP16", self.built(case), self.function),
                "",
            ),
            "workspace": (
                "The workspace is limited to 2 GB",
                lambda case: builders.workspace_limited(self.built(case)),
                _LIMIT,
            ),
            "parser_errors": ("If parsing fails, the exception has the parser's errors", self._parser_errors, ""),
            "failures": (stays, self._failures, FAILED),
        }

    def _parser_errors(self, case: Case) -> str:
        operator = "".join(case.random("operator").choice(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), 12))
        reply = self._failed(case, unsupported_onnx(operator), "an operator that TensorRT does not know")
        return builders.repeats_parser(reply.value["raised"], reply.output, operator)

    def _failures(self, case: Case) -> str:
        what = "a build that returns None"
        return f"{what}: {self._failed(case, self.model(case), what, parsed=True).value['raised'][:120]}"

    def _failed(self, case: Case, onnx: bytes, what: str, parsed: bool = False) -> Reply:
        """Return how the function fails; raise Missed unless with a RuntimeError, and the earlier engine file kept."""
        reply = case.call(failing_build, onnx=onnx, parsed=parsed, **self._arguments(case))
        failed = reply.require(self.function)
        if not (failed["as_asked"] and failed["raised"]):
            found = failed["raised"] or "no exception"
            advice = "check what each TensorRT call returns, and raise RuntimeError with the reason"
            raise Missed(f"your own RuntimeError for {what}", found, replacement(found) or advice)
        if not failed["kept"]:
            found = f"changed or gone after {what}"
            raise Missed("the earlier engine file unchanged", found, "write the file only when the build has succeeded")
        return reply

    def _arguments(self, case: Case) -> dict[str, Any]:
        extra = f"{self.extra.__module__}:{self.extra.__name__}" if self.extra else ""
        seed = case.number(f"{self.purpose}.extra")
        options = self.options(case) if callable(self.options) else self.options
        return {"function": self.function, "options": dict(options), "extra": extra, "seed": seed}
