"""`make faults`: grading is killed, stopped and disturbed; it ends with the same grades, or touches none and says why.

The course is that of tests/grading/tiny.py: its claims are decided in no time, and none depends on a clock.

    course.py    the course, graded undisturbed, and runs of the grading command on copies of it
    cases.py     killed, told to stop, two at once; a broken zip; the gradebook missing, empty, garbage, locked
    disks.py     a full disk and read-only folders, in a mount namespace of their own
"""
