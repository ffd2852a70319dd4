"""The summary of trtexec 7.x: a heading per metric, and a line per statistic below it.

Host Latency
min: 55.14 ms (end to end 55.15 ms)
percentile: 57.54 ms at 99% (end to end 57.56 ms at 99%)
throughput: 18.08 qps
walltime: 3.1 s
GPU Compute
…
total compute time: 3.09 s
"""

import re

from trtlab.trtexec.run import STATISTICS, LogRun

_HEADINGS = {"Host Latency": "latency", "Enqueue Time": "enqueue", "GPU Compute": "compute"}
_NUMBER = r"(\d+\.?\d*(?:[eE][-+]?\d+)?)"
_STATISTIC = re.compile(
    rf"^(min|max|mean|median|percentile): {_NUMBER} ms(?: at (\d+(?:\.\d+)?)%)?"
    rf"(?: \(end to end {_NUMBER} ms(?: at [\d.]+%)?\))?$"
)
_QUANTITY = re.compile(rf"^(throughput|walltime|total compute time): {_NUMBER} (?:qps|s)$")


def begins_older_summary(line: str) -> bool:
    """Say whether the line is the first heading of such a summary."""
    return line.strip() == "Host Latency"


class OlderSummary:
    """Stores the lines of one summary in a run, metric by metric."""

    def __init__(self) -> None:
        self._metric = "latency"

    def take(self, line: str, run: LogRun) -> bool:
        """Store a line of the summary; False when it is none."""
        line = line.strip()
        if line in _HEADINGS:
            self._metric = _HEADINGS[line]
        elif statistic := _STATISTIC.match(line):
            name, value, percent, end_to_end = statistic.groups()
            key = f"p{float(percent):g}_ms" if percent else f"{name}_ms"
            self._keep(run, self._metric, key, value)
            if end_to_end:
                self._keep(run, "end_to_end", key, end_to_end)
        elif quantity := _QUANTITY.match(line):
            name, value = quantity.groups()
            attributes = {"throughput": "throughput_qps", "walltime": "total_host_walltime_s"}
            setattr(run, attributes.get(name, "total_compute_s"), float(value))
        else:
            return False
        return True

    @staticmethod
    def _keep(run: LogRun, metric: str, key: str, value: str) -> None:
        run.metrics.setdefault(metric, dict.fromkeys(STATISTICS))[key] = float(value)
