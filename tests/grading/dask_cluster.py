"""A scheduler of Dask and its workers, as processes of this machine."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from solutions.grading.layout import ROOT


@dataclass
class Cluster:
    """The scheduler, its address, and the workers."""

    address: str
    scheduler: "subprocess.Popen[bytes]"
    workers: list["subprocess.Popen[bytes]"]


@contextmanager
def cluster(folder: Path, *environments: Mapping[str, str], resources: str = "TIMING=1") -> Iterator[Cluster]:
    """Start a scheduler, and a worker with each of these variables besides our own; end them afterwards."""
    from distributed.utils import json_load_robust

    file, processes = folder / "scheduler.json", []

    def start(name: str, *options: object, environment: Mapping[str, str]) -> None:
        ours = {**os.environ, "PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__DIAGNOSTICS__NVML": "false", **environment}
        with (folder / f"{name}-{len(processes)}.log").open("wb") as log:
            command = [sys.executable, "-m", f"distributed.cli.dask_{name}", "--no-dashboard", *map(str, options)]
            command += ["--scheduler-file", str(file)]
            processes.append(subprocess.Popen(command, env=ours, cwd=folder, stdout=log, stderr=log))

    try:
        start("scheduler", "--port", 0, environment={})
        address = json_load_robust(file, timeout=60)["address"]
        for environment in environments:
            start("worker", "--nthreads", 1, "--no-nanny", "--resources", resources, environment=environment)
        until(lambda: _workers(address) == len(environments))
        yield Cluster(address, processes[0], processes[1:])
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait(20)


def until(true: Callable[[], object], seconds: float = 60) -> None:
    """Wait until something is true."""
    ends = time.monotonic() + seconds
    while not true():
        if time.monotonic() > ends:
            raise TimeoutError(f"not so within {seconds:g} s")
        time.sleep(0.05)


def _workers(address: str) -> int:
    from distributed import Client

    with Client(address) as client:
        return len(client.scheduler_info(n_workers=-1)["workers"])
