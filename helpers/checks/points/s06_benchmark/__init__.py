"""Step 6: benchmark_latency (latency.py), benchmark_throughput (throughput.py), and their two files (results.py)."""

from helpers.checks.points.s06_benchmark import latency, results, throughput

TASKS = (latency.LATENCY, throughput.THROUGHPUT, results.RESULTS)
PROMISES = (*latency.PROMISES, *throughput.PROMISES, *results.PROMISES)
"""Figures in the notebook's text."""
