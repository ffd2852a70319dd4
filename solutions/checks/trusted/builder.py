"""Hidden points of a function that builds an engine: the outputs and sizes of its engines."""

from collections.abc import Callable
from functools import partial

from helpers.checks.points import builders
from helpers.checks.points.builder import Builder
from helpers.checks.points.case import Case
from helpers.checks.points.task import Task
from helpers.course.settings import ONNX_FILE
from solutions.checks.trusted.plans import HALF_TOLERANCE, check_outputs, images, largest_batch, small_on_a_gpu


def ask(builder: Builder, task: Task, **worth: float) -> None:
    """Give the task the hidden points in `worth`; `half_precision` is also asked for a wide model."""
    hidden: dict[str, tuple[str, Callable[[Builder, Case], str]]] = {
        "outputs": ("It computes the same as the ONNX model", _outputs),
        "repeatable": ("It works twice in a row", _repeatable),
    }
    for name, points in worth.items():
        title, judge = hidden[name]
        task.hidden(f"{builder.purpose}.{name}", points, title)(partial(judge, builder))
    for point in task.points:
        if point.name == f"{builder.purpose}.half_precision":
            point.in_grading(partial(_half, builder, point.judge))


def _half(builder: Builder, visible: Callable[[Case], str], case: Case) -> str:
    said, build, seed = visible(case), partial(builder.built, case), case.number(f"{builder.purpose}.wide")
    return f"{said}; {small_on_a_gpu(build, builder.function, seed, builders.HALF_SIZE)}"


def _outputs(builder: Builder, case: Case) -> str:
    plan, model = builder.plan(case), builder.model(case)
    sizes = 1, largest_batch(plan)
    return "; ".join(check_outputs(plan, model, images(case, builder.purpose, n), HALF_TOLERANCE) for n in sizes)


def _repeatable(builder: Builder, case: Case) -> str:
    """Return evidence that it also builds a second model at the same paths."""
    other = builder.model(case, "other")
    built = builder.built(case, other, before=builder.model(case), name=ONNX_FILE)
    builders.asked_for(built)
    plan, noise = builders.plan_of(built, builder.function), images(case, builder.purpose, 1)
    return f"another model under the same names: {check_outputs(plan, other, noise, HALF_TOLERANCE)}"
