"""The second process: it holds claims, answers, seeds and the clock, and writes the records.

One judge grades one notebook. The grader (handle.py) starts it, tells it what to do (process.py; lab.py is the lab's
own), and runs the notebook in a sandboxed kernel; in place of each test cell's check the kernel answers what the judge
asks through a door.
"""
