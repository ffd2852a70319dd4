"""Proves the hidden checks by mutation: faulty variants of every reference solution must lose a claim, rewrites none."""
