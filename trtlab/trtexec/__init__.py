"""NVIDIA's trtexec: running it, reading its logs and exports, and a benchmark written as its log.

Reading order: log (what versions 7 to 11 print), exports (JSON), parse (any of them to one object), bench_log (our own
log in its format), command (running it).
"""
