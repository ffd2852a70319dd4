"""Attacks on the grader, each a submission: what it must not reach, and that it would reach it without the guard."""
