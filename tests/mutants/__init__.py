"""Proves the hidden checks by mutation: faulty variants of each solution must lose a claim, rewrites none."""
