"""Code written for TensorRT 7, 8 or 10: which of its names are gone, and what can be rewritten without judgement.

Reading order: pieces.py (a script or a notebook as one source), uses.py (what is gone that is no name), meanings.py
(what each name of the source stands for), findings.py, rewrites/ (the mechanical ones), migration.py (all of it on one
file).
"""
