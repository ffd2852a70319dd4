"""Step 6: benchmark_latency, benchmark_throughput, and the table that they fill.

Reading order: timing.py (the probes: the student's functions on models whose timing is known), latency.py and
throughput.py (what is asked of each function), results.py (what is asked of the two files), engines.py (the probes that
run the functions on an engine; only hidden claims judge those).
"""

from helpers.checks.points.point import Check
from helpers.checks.points.s06_benchmark import engines, latency, results, throughput

__all__ = ["CHECKS", "PROMISES", "engines", "latency", "results", "throughput"]

STEP = "06_benchmark"
CHECKS = {
    "check_latency": Check(STEP, "Latency", (latency.FUNCTION,), latency.POINTS),
    "check_throughput": Check(STEP, "Throughput", (throughput.FUNCTION,), throughput.POINTS),
    "check_measurements": Check(STEP, "Measurements", (), (*results.POINTS, results.fit)),
}
PROMISES = (*latency.PROMISES, *throughput.PROMISES, *results.PROMISES)
"""What the notebook's text says in figures."""
