"""Data sets and models."""
