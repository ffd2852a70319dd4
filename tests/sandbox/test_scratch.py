"""The scratch in memory: what fits beside each other, what the kernel holds, and what is left of who was killed."""

import subprocess
import sys
from pathlib import Path

import pytest

from solutions.sandbox import trouble
from solutions.sandbox.room import ROOT

CODE = """
import os, signal
from pathlib import Path
from solutions.sandbox import Limits
from solutions.sandbox.scratch import entered, passed, temporary
small, large, said = Limits(scratch_bytes=8 << 20, scratch_files=20), Limits(scratch_bytes=1 << 50), []
def refused(what):
    try:
        what()
    except OSError as error:
        return error.strerror
with entered():
    if not os.fork():
        with temporary(small) as killed:
            os.kill(os.getpid(), signal.SIGKILL)
    os.wait()
    left = [line for line in open("/proc/self/mountinfo") if "trt-lab-scratch" in line]
    with temporary(small) as one, temporary(small) as other, temporary(large) as on_disk:
        said += [len(left), one.is_mount(), other.is_mount(), on_disk.is_mount(), one.parent == other.parent]
        said += [passed(folder, small) for folder in (one, on_disk)]
        said += [refused(lambda: (one / "a").write_bytes(bytes(9 << 20))), passed(one, small)]
        said += [refused(lambda: [(other / str(n)).touch() for n in range(30)]), passed(other, small)]
        (one / "mine").touch()
        print(one, flush=True)
        input()
        mounted = {line.split()[4] for line in open("/proc/self/mountinfo") if "trt-lab-scratch" in line}
        said.append(mounted == {str(one), str(other)})
    said.append(any(folder.exists() for folder in (one, other, on_disk)))
print(said)
"""


@pytest.mark.skipif(bool(trouble("bubblewrap")), reason="no mount namespace can be made here")
def test_scratches_in_memory_are_limited_by_the_kernel_and_seen_by_nobody_else() -> None:
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", CODE], cwd=ROOT, text=True, **pipes) as process:
        one = Path(process.stdout.readline().strip())
        assert not one.is_mount() and list(one.iterdir()) == []
        out, errors = process.communicate("\n")
    too_much, too_many = "it wrote more than its limit of 8 MiB", "it made more than its limit of 20 files"
    full = "No space left on device"
    expected = [1, True, True, False, True, "", "", full, too_much, full, too_many, True, False]
    assert (out, errors) == (f"{expected}\n", "")
