"""Grading one step of one student as a piece of work that can be done anywhere: here, in a process beside, on Dask.

A piece (piece.py) has a gradebook of its own, so that none waits for another; the class's takes over its record. It is
done in a process started ahead and used once (place.py, started by nursery.py), a few beside each other (pool.py) or
on other machines (cluster.py).
"""
