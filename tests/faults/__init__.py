"""`make faults`: grading is killed, stopped and disturbed; it ends with the same grades, or touches none and says why.

The course is that of tests/grading/tiny.py: its claims are decided in no time, and none depends on a clock.

    course.py       the course, its class, and runs of the grading command on a copy of it
    stops.py        killed, told to stop, two at once
    gradebooks.py   the gradebook missing, empty, garbage, locked
    disks.py        a full disk, read-only folders, in a mount namespace of their own
    archives.py     a broken zip
"""
