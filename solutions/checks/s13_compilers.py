"""Claims of step 13: its points on fresh times, networks and figures."""

from helpers.checks.points.s13_compilers import clocks, costs
from solutions.checks.core.claim import award

CLOCKS_CELL, COSTS_CELL = "compilers_clocks", "compilers_costs"

award("host.times", 0.25, clocks.host_times, cell=CLOCKS_CELL)
award("host.calls", 0.25, clocks.host_calls, cell=CLOCKS_CELL)
award("host.waits", 0.25, clocks.host_waits, cell=CLOCKS_CELL)
award("events.times", 0.25, clocks.events_times, cell=CLOCKS_CELL)
award("events.stream", 0.25, clocks.events_stream, cell=CLOCKS_CELL)
award("events.fed", 0.25, clocks.events_fed, cell=CLOCKS_CELL)
award("events.calls", 0.25, clocks.events_calls, cell=CLOCKS_CELL)

award("compile.first_answer", 0.25, costs.first_answer, cell=COSTS_CELL)
award("compile.made_once", 0.25, costs.made_once, cell=COSTS_CELL)
award("compile.plans", 0.25, costs.plans, cell=COSTS_CELL)
award("break_even.calls", 0.25, costs.paid_off, cell=COSTS_CELL)
award("break_even.never", 0.25, costs.never, cell=COSTS_CELL)
