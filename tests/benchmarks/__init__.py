"""Benchmarks of the CPU engine: each module has measure() -> dict."""
