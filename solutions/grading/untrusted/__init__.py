"""Reads and shows what strangers handed in: bounded before it is parsed, and without scripts before anyone sees it."""
