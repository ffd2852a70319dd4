"""Runs a command in a sandbox to its end: the disposable children that load what a stranger made."""

import subprocess
import threading
import time
from typing import IO

from solutions.sandbox.choice import chosen, command
from solutions.sandbox.room import STANDARD, Done, Limits, Room
from solutions.sandbox.watch import Watch

OUTPUT_BYTES = 16 << 20
"""What is kept of each of a command's two outputs; the rest is read and dropped."""


def run(
    argv: list[str], room: Room, limits: Limits = STANDARD, *, input: bytes | None = None, kind: str | None = None
) -> Done:
    """Run `argv` in a sandbox (`kind`, else the chosen one) with `input` on its stdin, and return how it ended.

    Raises:
        LabError: no sandbox works here.
        SystemExit: the machine's disk or memory is full, so that nothing is known of the command.
    """
    line, environment = command(kind or chosen(), argv, room, limits)
    started = time.monotonic()
    with subprocess.Popen(
        line,
        env=environment,
        cwd=room.scratch,
        stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        kept: list[bytearray] = [bytearray(), bytearray()]
        pumps = [
            threading.Thread(target=_read, args=(stream, buffer), daemon=True)
            for stream, buffer in zip((process.stdout, process.stderr), kept, strict=True)
        ]
        if input is not None:
            pumps.append(threading.Thread(target=_write, args=(process.stdin, input), daemon=True))
        for pump in pumps:
            pump.start()
        with Watch(process.pid, room, limits) as watch:
            process.wait()
            seconds = time.monotonic() - started
        for pump in pumps:
            pump.join()
    if watch.machine_full:
        raise SystemExit(watch.ended_by)
    return Done(process.returncode, bytes(kept[0]), bytes(kept[1]), watch.ended_by, seconds, watch.peak_bytes)


def _read(stream: IO[bytes], kept: bytearray) -> None:
    while block := stream.read1(1 << 16):
        kept += block[: OUTPUT_BYTES - len(kept)]


def _write(stream: IO[bytes], data: bytes) -> None:
    try:
        with stream:
            stream.write(data)
    except BrokenPipeError:  # it ended without reading all
        return
