"""What each step asks, written once: one room a step, with its limits, its probes, its points and its visible checks.

A *point* is one thing that is asked of a student's work: `judge(case)` returns its evidence or raises Missed, which
says what was expected, what was found and what to try. It sees plain data only: what *probes* answered. A *case* is
one student and one seed. The visible check judges its points on a case whose seed is known, so that it says the same
each time; a hidden claim (solutions/checks) judges the same point on a fresh one, and adds what only the grader knows.

Reading order: case.py, files.py, point.py, builders.py (what every engine builder is asked), then a step: s02_fp16.py.
"""
