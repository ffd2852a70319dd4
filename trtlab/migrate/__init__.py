"""Code written for TensorRT 7, 8 or 10: which of its names are gone, and what can be rewritten without judgement.

Reading order: pieces.py (a script or a notebook as one source), api.py (TensorRT's names), uses.py (what is gone that
is no name), expressions.py and meanings.py (what each name of the source stands for), findings.py, rewrites/ (the
mechanical ones), migration.py (all of it on one file).
"""
