"""Runs a command in a sandbox to its end: the disposable children that load what a stranger made."""

import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass

from solutions.sandbox.choice import chosen, command
from solutions.sandbox.room import STANDARD, Limits, Room
from solutions.sandbox.watch import Watch

# What is read of each of a command's two outputs.
OUTPUT_BYTES = 16 << 20


@dataclass(frozen=True)
class Done:
    """How a sandboxed command ended.

    Attributes:
        returncode: Its exit status; 128 and the number of a signal that ended it.
        ended_by: The limit that ended it, as a clause that begins with "it"; empty if it ended by itself.
    """

    returncode: int
    stdout: bytes
    stderr: bytes
    ended_by: str


def run(argv: list[str], room: Room, limits: Limits = STANDARD, *, input: bytes = b"", kind: str | None = None) -> Done:
    """Run `argv` in a sandbox (`kind`, else the chosen one) with `input` on its stdin, and return how it ended.

    Raises:
        LabError: no sandbox works here.
        SystemExit: the machine's disk or memory is full, so that nothing is known of the command.
    """
    line, environment = command(kind or chosen(), argv, room, limits)
    with ExitStack() as stack:
        # in the scratch, where they count; without names, so that nobody can put others there
        files = [stack.enter_context(tempfile.TemporaryFile(dir=room.scratch)) for _ in range(3)]
        files[0].write(input)
        files[0].seek(0)
        process = subprocess.Popen(
            line, env=environment, cwd=room.scratch, stdin=files[0], stdout=files[1], stderr=files[2]
        )
        watch = Watch(process.pid, room, limits)
        try:
            process.wait()
        finally:
            watch.stop()
        if watch.machine_full:
            raise SystemExit(watch.ended_by)
        for file in files:
            file.seek(0)
        return Done(process.returncode, *(file.read(OUTPUT_BYTES) for file in files[1:]), watch.ended_by)
