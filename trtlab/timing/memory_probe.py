"""The memory that one runner takes alone: a process of its own loads it, runs it at each batch, and reports the peaks.

In the benchmark's own process every other engine would be counted too. On a CPU the figure is the process's peak
resident memory (interpreter and framework included); on a GPU it is the growth of the device's used memory (NVML).
"""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence

from trtlab.timing.runners import Runner, RunnerSpec, load_runner

EXECUTIONS = 3
TIMEOUT_S = 300


def peak_memory(runner: Runner, batch_sizes: Sequence[int]) -> dict[int, int]:
    """Return peak bytes by batch size; empty if the runner cannot be loaded a second time."""
    command, asked = [sys.executable, "-m", __name__], pickle.dumps((runner.spec, batch_sizes))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        answer = subprocess.run(
            command, input=asked, capture_output=True, timeout=TIMEOUT_S, env=environment, check=True
        ).stdout
        return {int(batch): peak for batch, peak in json.loads(answer.splitlines()[-1]).items()}
    except (subprocess.SubprocessError, OSError, ValueError, IndexError):
        return {}


def measure(spec: RunnerSpec, batch_sizes: Sequence[int]) -> dict[int, int]:
    """Return peak bytes by batch size of what is loaded into this process."""
    from helpers.engine.backend import describe
    from helpers.engine.memory import PeakMemory, gpu_memory_bytes
    from trtlab.ran_in import elsewhere

    before = gpu_memory_bytes(whole_device=True) or 0
    runner, peaks = load_runner(spec), {}
    on_gpu = describe()["name"] == "tensorrt" and not elsewhere(describe(), runner.device)
    for batch in sorted(batch_sizes):
        with PeakMemory(whole_device=True) as peak:
            runner.bind(batch)
            for _ in range(EXECUTIONS):
                runner.run()
        counted = peak.gpu_bytes if on_gpu else None
        peaks[batch] = peak.process_bytes if counted is None else max(0, counted - before)
    return peaks


if __name__ == "__main__":
    print(json.dumps(measure(*pickle.load(sys.stdin.buffer))))
