"""What each step asks: one room a step, with its tasks and their points (task.py).

A *point* is one thing that is asked of a student's work. Its predicate looks at a *case* (one student, one seed). It
returns its evidence or raises Missed: expected, found, try this. It sees plain data only: what *probes* answered. A
visible check asks a task's points on a case whose seed is known, so that it says the same each time. Grading asks them
on a fresh one, and the hidden points that solutions/checks adds.

Reading order: case.py, task.py, then the shared kinds: pure.py (a function compared with a trusted one), builder.py
(a function that builds an engine), files.py (a deliverable read back). Then a step: s02_fp16.py, s07_accuracy.py.
"""
