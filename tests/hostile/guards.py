"""The guards that attacks aim at, and how one alone is switched off in the grader's process, for a control."""

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["GUARDS", "Guard"]


@dataclass(frozen=True)
class Guard:
    """What it keeps, for docs/threat-model.md, and what switches it off."""

    keeps: str
    off: Callable[[], None]


def _nothing() -> None:
    """There is nothing to switch off yet."""


GUARDS: dict[str, Guard] = {
    "sandbox": Guard("files, processes and network that the kernel does not see", _nothing),
    "judge": Guard("claims, answers and records are in a process of their own", _nothing),
    "memory": Guard("memory of the kernel's processes is watched", _nothing),
    "processes": Guard("the number of the kernel's processes is watched", _nothing),
    "scratch": Guard("what the kernel writes is watched", _nothing),
    "time": Guard("a cell and a notebook have a time limit", _nothing),
    "schema": Guard("a record has a schema and a size", _nothing),
    "links": Guard("links and special files in the course are not followed", _nothing),
    "archives": Guard("archives are looked at before they are unpacked, one by one", _nothing),
    "sanitise": Guard("outputs and markdown are sanitised", _nothing),
    "reader": Guard("notebooks are measured before they are read", _nothing),
    "outputs": Guard("outputs of a cell are limited in number and size", _nothing),
    "restore": Guard("test cells, labels and points come from the source", _nothing),
    "ignore": Guard("modules of a submission are not copied beside its notebook", _nothing),
}
