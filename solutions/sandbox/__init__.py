"""Runs strangers' code: a room with one writable folder, no network, nothing of the course, and limits.

`chosen` says which sandbox this machine has, `run` runs a command to its end, `command` gives what a kernel manager
starts itself, `Watch` holds the limits of what was started so, and `remove` removes what it wrote. docs/security.md
says what holds where.
"""

from solutions.sandbox.choice import KINDS, VARIABLE, chosen, command, trouble
from solutions.sandbox.room import THREADS, Limits, Room
from solutions.sandbox.running import Done, run
from solutions.sandbox.scratch import remove
from solutions.sandbox.watch import Watch

__all__ = [
    "KINDS",
    "THREADS",
    "VARIABLE",
    "Done",
    "Limits",
    "Room",
    "Watch",
    "chosen",
    "command",
    "remove",
    "run",
    "trouble",
]
