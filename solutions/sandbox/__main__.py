"""`trtlab doctor --sandbox`: try six attacks on the sandboxes that run submissions, and say what held."""

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from helpers.tools.signals import clean_ends
from solutions.sandbox import KINDS, Done, Limits, Room, chosen, run, trouble
from solutions.sandbox.choice import SAID
from solutions.sandbox.room import ROOT
from solutions.sandbox.scratch import entered, temporary
from trtcpu.errors import LabError

_LIMITS = Limits(256 << 20, 32, 64 << 20, 20)
_BEFORE = "import json, os, socket; globals().update(json.loads(os.environ['OUTSIDE']))\n"
_KEPT = "everybody has 100 points"
_GPU = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
for call in (
    lambda: cuda.cuInit(0),
    lambda: cuda.cuDeviceGet(ctypes.byref(device), 0),
    lambda: cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
    lambda: cuda.cuCtxSetCurrent(context),
    lambda: cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20)),
):
    if error := call():
        raise SystemExit(f"CUDA's error {error}")
"""


# What runs inside, with OUTSIDE's names, and a word of the limit that must end it.
ATTACKS = {
    "read the hidden checks": ("open(f'{root}/solutions/checks/__init__.py'); print('REACHED')", ""),
    "change a file outside": ("open(f'{outside}/gradebook', 'w').write('x')", ""),
    "end another process": ("os.kill(other, 9)", ""),
    "connect over TCP": ("socket.create_connection(('127.0.0.1', port), 5); print('REACHED')", ""),
    "too much memory": ("kept = []\nwhile True: kept.append(b'x' * (8 << 20))", "memory"),
    "a full disk": ("for n in range(1000): open(str(n), 'wb').write(bytes(1 << 20))", "wrote"),
}


def attack_sandboxes() -> None:
    """Try six attacks on each sandbox that works here.

    Raises:
        LabError: none works, or one did not hold what it promises.
    """
    failed = []
    for kind in KINDS:
        if reason := trouble(kind):
            print(f"{kind}: does not work here: {reason}")
            continue
        tried = {name: _tried(kind, *attack) for name, attack in ATTACKS.items()}
        if Path("/dev/nvidiactl").exists():
            tried["use the GPU, which is allowed"] = _gpu_inside(kind)
        for name, (held, seen) in tried.items():
            print(f"{kind} · {'held' if held else 'NOT HELD'} · {name}: {seen}", flush=True)
            failed += [] if held else [f"{kind} · {name}"]
    print(f"submissions run in: {SAID.get(chosen(), chosen())}")
    if failed:
        raise LabError(f"not held: {'; '.join(failed)}")


def _tried(kind: str, code: str, limit: str) -> tuple[bool, str]:
    with contextlib.ExitStack() as stack:
        outside = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))  # /tmp is another one inside
        (outside / "gradebook").write_text(_KEPT)
        other = stack.enter_context(subprocess.Popen(["cat"], stdin=subprocess.PIPE))
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        names = {"root": str(ROOT), "outside": str(outside), "other": other.pid, "port": server.getsockname()[1]}
        room = Room(stack.enter_context(temporary(_LIMITS)), environment={"OUTSIDE": json.dumps(names)})
        done = run([sys.executable, "-I", "-S", "-c", _BEFORE + code], room, _LIMITS, kind=kind)
        touched = (outside / "gradebook").read_text() != _KEPT or other.poll() is not None
    held = not touched and b"REACHED" not in done.stdout and limit in done.ended_by
    return held, _how(done) if held else f"it reached its goal ({_how(done)})"


def _how(done: Done) -> str:
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return done.ended_by or (said[-1][:80] if said else "nothing was said")


def _gpu_inside(kind: str) -> tuple[bool, str]:
    """Return whether CUDA can allocate memory inside a sandbox that is given the GPU, and what was said."""
    with temporary(_LIMITS) as folder:
        argv = [sys.executable, "-I", "-S", "-c", _GPU]
        done = run(argv, Room(folder, gpu=True), Limits(seconds=60), kind=kind)
    return done.returncode == 0, _how(done)


if __name__ == "__main__":
    with clean_ends(), entered():
        try:
            attack_sandboxes()
        except LabError as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(2)
