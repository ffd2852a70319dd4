"""Kernels in the sandbox: they answer over files, see helpers alone, are interrupted, and leave nothing."""

import asyncio
import time
from pathlib import Path

import psutil
import pytest

from solutions.sandbox import KINDS, Limits, Room, trouble
from solutions.sandbox.provisioner import SandboxedKernelManager
from trtcpu.errors import LabError

WORKS = [kind for kind in KINDS if not trouble(kind)]
CODE = """
import importlib.util, os, subprocess
import helpers
found = []
try:
    import solutions.checks
    found.append("solutions.checks")
except (ImportError, OSError):
    pass
left = subprocess.Popen(["setsid", "sh", "-c", f"sleep 300; : {os.getcwd()}"]).pid
open("said", "w").write(f"{os.path.basename(os.getcwd())} {found} {'JPY_PARENT_PID' in os.environ}")
"""


@pytest.mark.parametrize("kind", WORKS)
def test_a_kernel_runs_is_interrupted_and_leaves_no_process(kind: str, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    statuses = asyncio.run(_run(kind, Room(scratch)))
    assert statuses == ["ok", "error"]  # the second was interrupted
    assert (scratch / "said").read_text() == "scratch [] False"
    assert not list(scratch.glob("kernel*"))
    ends = time.monotonic() + 20
    while _naming(scratch) and time.monotonic() < ends:  # killed ones may take a moment to end
        time.sleep(0.1)
    assert _naming(scratch) == []


async def _run(kind: str, room: Room) -> list[str]:
    manager = SandboxedKernelManager(kernel_name="python3")
    await manager.start_kernel(room=room, limits=Limits(), kind=kind)
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=60)
        first = await client.execute_interactive(CODE, output_hook=lambda message: None, timeout=60)
        code = "import time\nopen('running', 'w')\ntime.sleep(60)"
        again = asyncio.ensure_future(client.execute_interactive(code, output_hook=lambda message: None, timeout=60))
        while not (room.scratch / "running").exists():  # an interrupt that comes before the cell runs is lost
            await asyncio.sleep(0.05)
        await manager.interrupt_kernel()
        return [first["content"]["status"], (await again)["content"]["status"]]
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)


def _naming(scratch: Path) -> list[str]:
    commands = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    return [command for command in commands if str(scratch) in command]


def test_a_scratch_with_a_path_too_long_for_sockets_is_refused(tmp_path: Path) -> None:
    manager = SandboxedKernelManager(kernel_name="python3")
    with pytest.raises(LabError, match="TMPDIR names one"):
        asyncio.run(manager.start_kernel(room=Room(tmp_path / ("long" * 25)), kind="none"))
