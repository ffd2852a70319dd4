"""A scheduler of Dask and its workers, as processes of this machine."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from distributed import Client
from distributed.utils import json_load_robust

from solutions.grading.layout import ROOT


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[tuple[str, list["subprocess.Popen[bytes]"]]]:
    """Give the scheduler's address, and the processes: the scheduler's first. Their log is in `folder`."""
    file = folder / "scheduler.json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__DIAGNOSTICS__NVML": "false"}
    worker = ["worker", "--nthreads", "1", "--no-nanny", "--resources", "TIMING=1"]
    processes = []
    with ExitStack() as stack:
        log = stack.enter_context((folder / "dask.log").open("wb"))
        for name, *options in (["scheduler", "--port", "0"], *[worker] * workers):
            command = [sys.executable, "-m", f"distributed.cli.dask_{name}", "--no-dashboard", *options]
            command += ["--scheduler-file", str(file)]
            process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
            stack.enter_context(process)
            stack.callback(process.kill)
            processes.append(process)
        address = json_load_robust(file, timeout=60)["address"]
        with Client(address) as client:
            client.wait_for_workers(workers, timeout=60)
        yield address, processes
