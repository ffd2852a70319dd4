"""NVIDIA's trtexec: running it, reading its logs and exports, and a benchmark written as its log.

Reading order: log (what versions 7 to 11 print), parse (a log or an export to one JSON object), bench_log (our own log
in its format), command (running it).
"""
