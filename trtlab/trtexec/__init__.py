"""NVIDIA's trtexec: running it, reading its logs and exports, and a benchmark written as its log.

Reading order: run (what a log tells), log (versions 8 to 11), older (7.x), exports (JSON), parse (any of them to one
object), bench_log (our own log in its format), command (running it).
"""
