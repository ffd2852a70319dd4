"""What students may import: support for the lab, never an answer to a task.

    from helpers import DEVICE, artifact, cuda, feedback, label, trt

Here are the names that most notebooks need. They are loaded when they are first used, so importing the package chooses
no engine. The rooms below have the rest, from the ground up:

    tools/    files, signals, cells of notebooks, outputs compared
    engine/   the engine that runs here, and what can be asked about it
    course/   the steps and their artifacts, settings, labels and charts
    data/     data sets and models
    toys/     what one notebook uses
    checks/   the visible checks: points, probes and feedback; no notebook imports from here
"""

from importlib import import_module
from typing import Any

_MODULES = {
    "DEVICE": "helpers.engine.backend",
    "ENGINE": "helpers.engine.backend",
    "arithmetic": "helpers.engine.arithmetic",
    "artifact": "helpers.course.artifacts",
    "artifact_path": "helpers.course.artifacts",
    "cuda": "helpers.engine.backend",
    "feedback": "helpers.checks.feedback",
    "label": "helpers.course.labels",
    "load_dataset": "helpers.data.datasets",
    "load_model": "helpers.data.models",
    "plots": "helpers.course.plots",
    "trt": "helpers.engine.backend",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"helpers has no {name!r}; it has {', '.join(__all__)}, and rooms of its own")
    module = import_module(_MODULES[name])
    return getattr(module, name, module)  # feedback and plots are the modules themselves
