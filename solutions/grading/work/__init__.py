"""Grading one step of one student as a piece of work that can be done anywhere.

A piece is done in a process started ahead and used once (place.py), which begins as a copy of one that has imported all
it needs (warm.py). Dask has pieces done beside each other (pool.py), here or on other machines.
"""
