"""The memory that one runner takes alone: a process of its own loads it, runs it at each batch, and reports the peaks.

In the benchmark's own process every other engine would be counted too. On a CPU the figure is the process's peak
resident memory (interpreter and framework included); on a GPU it is by how much the device's used memory grew (NVML).
"""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from trtlab.timing.runners import Runner, RunnerSpec, load_runner

EXECUTIONS = 3
TIMEOUT_S = 300
_ROOT = Path(__file__).resolve().parents[2]


def peak_memory(runner: Runner, batch_sizes: Sequence[int]) -> dict[int, int]:
    """Return peak bytes by batch size; empty where the runner cannot be loaded a second time."""
    if runner.spec is None:
        return {}
    request = json.dumps({"spec": dataclasses.asdict(runner.spec), "batch_sizes": list(batch_sizes)})
    command = [sys.executable, "-m", "trtlab.timing.memory_probe", request]
    try:
        answer = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, env=_environment(), check=True).stdout
        return {int(batch): int(peak) for batch, peak in json.loads(answer.splitlines()[-1]).items()}
    except (subprocess.SubprocessError, OSError, ValueError, IndexError):
        return {}


def _environment() -> dict[str, str]:
    from helpers.engine.backend import ENGINE

    paths = [str(_ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "TRT_LAB_ENGINE": ENGINE, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _measure(spec: RunnerSpec, batch_sizes: Sequence[int]) -> dict[int, int]:
    from helpers.engine.memory import PeakMemory, gpu_memory_bytes

    before = gpu_memory_bytes(whole_device=True) or 0
    runner, peaks = load_runner(spec), {}
    for batch in sorted(batch_sizes):
        with PeakMemory(whole_device=True) as peak:
            runner.bind(batch)
            for _ in range(EXECUTIONS):
                runner.run()
        on_gpu = peak.gpu_bytes is not None and _uses_gpu(runner)
        peaks[batch] = max(0, peak.gpu_bytes - before) if on_gpu else peak.process_bytes
    runner.close()
    return peaks


def _uses_gpu(runner: Runner) -> bool:
    from helpers.engine.backend import describe
    from trtlab.ran_in import elsewhere

    return describe()["name"] == "tensorrt" and not elsewhere(describe(), runner.device)


def main(request: str) -> None:
    """Answer one request on standard output, as JSON on the last line."""
    asked = json.loads(request)
    spec = asked["spec"]
    spec["sample_shape"] = tuple(spec["sample_shape"])
    print(json.dumps(_measure(RunnerSpec(**spec), asked["batch_sizes"])))


if __name__ == "__main__":
    main(sys.argv[1])
