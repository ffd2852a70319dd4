"""Imports every step's module of claims (`*_claims.py` in this folder), which registers them."""

import importlib
import pkgutil

import solutions.checks

for _module in pkgutil.iter_modules(solutions.checks.__path__):
    if _module.name.endswith("_claims") and _module.name != "all_claims":
        importlib.import_module(f"solutions.checks.{_module.name}")
