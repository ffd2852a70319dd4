"""What each step asks: one room per step, with its tasks and their points (task.py).

A *point* asks one thing of a student's work. Its predicate looks at a *case* (one student, one seed). It returns its
evidence or raises Missed: expected, found, try this. It sees only plain data, the answers of *probes*. A visible check
asks a task's points on a case with a known seed, so its result is always the same. Grading asks them with a new seed,
and adds the hidden points of solutions/checks.

Reading order: case.py, task.py, then the shared kinds: pure.py (a function compared with a trusted one), builder.py
(a function that builds an engine), files.py (a deliverable read back). Then a step: s02_fp16.py, s07_accuracy.py.
"""
