"""The pool that a command's options ask for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from solutions.grading.course import Course
from solutions.grading.work.pool import Beside, Pool, jobs_here


@contextmanager
def chosen_pool(
    course: Course, jobs: int | None, scheduler: str, runner: Any, say: Callable[[str], None]
) -> Iterator[Pool]:
    """Work on Dask's workers, where a scheduler or a SLURM job's runner names some, else here; `say` how many."""
    if scheduler or runner:
        from solutions.grading.work.cluster import on_dask, on_slurm

        with on_slurm(runner, course) if runner else on_dask(scheduler, course) as pool:
            say(f"on Dask's workers, {pool.at_once} at a time")
            yield pool
    else:
        with Beside(course, jobs_here(jobs)) as pool:
            say(f"{pool.at_once} at a time" if pool.at_once > 1 else "one at a time")
            yield pool
