"""Step 13: two clocks, the time until the first answer, and after how many calls that has paid off.

Reading order: device.py (what the student's functions time), probes.py (what is done with them), clocks.py and costs.py
(what is asked).
"""

from helpers.checks.points.point import Check
from helpers.checks.points.s13_compilers import clocks, costs

__all__ = ["CHECKS", "PROMISES", "clocks", "costs"]

PROMISES: tuple[str, ...] = (
    "It must also work with `warmup=0` and with `iterations=1`",
    "a dictionary with `median_ms` and `p95_ms`",
)
"""What the notebook's text says in figures."""

CHECKS = {
    "check_clocks": Check(
        "13_compilers",
        "Two clocks",
        (clocks.HOST, clocks.EVENTS),
        (
            clocks.host_times,
            clocks.host_calls,
            clocks.host_waits,
            clocks.events_times,
            clocks.events_stream,
            clocks.events_fed,
            clocks.events_calls,
        ),
    ),
    "check_costs": Check(
        "13_compilers",
        "What compiling costs",
        (costs.COMPILE, costs.PLAN, costs.BREAK_EVEN),
        (costs.first_answer, costs.made_once, costs.plans, costs.paid_off, costs.never),
    ),
}
