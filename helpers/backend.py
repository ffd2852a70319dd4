"""The only place that chooses the engine.

    from helpers.backend import trt, cuda, DEVICE

`trt` and `cuda` are the real `tensorrt` and `pycuda.driver` where an NVIDIA GPU and both packages are present, else
the CPU engine (TensorRT's Python API on OpenVINO). `TRT_LAB_ENGINE=auto|tensorrt|cpu` overrides the choice; asking for
`tensorrt` where it cannot run raises `EngineUnavailableError`. Where a TensorRT is installed and `auto` cannot use it,
`WHY_CPU` and `describe()` say why; no warning does, since text on stderr costs a graded cell its points.

On real TensorRT, where a build spends its time timing kernels, `TRT_LAB_TIMING_CACHE` may name a file of timings that
every build looks up: graders set it.
"""

import importlib
import importlib.util
import os
from contextlib import ExitStack
from types import ModuleType

from helpers.errors import EngineUnavailableError, InputError
from helpers.timings import offered_timings, read_timings

__all__ = ["DEVICE", "ENGINE", "TIMINGS_VARIABLE", "WHY_CPU", "cuda", "describe", "trt"]

ENGINE_VARIABLE = "TRT_LAB_ENGINE"
TIMINGS_VARIABLE = "TRT_LAB_TIMING_CACHE"
_UNTIL_THE_END = ExitStack()  # what is entered here holds as long as the process: nobody closes it
_CHOICES = ("auto", "tensorrt", "cpu")


def _load_tensorrt() -> tuple[ModuleType, ModuleType, str]:
    """Import real TensorRT with pycuda in torch's primary context; the device string names version and GPU."""
    try:
        tensorrt = importlib.import_module("tensorrt")
        importlib.import_module("pycuda.autoprimaryctx")
        driver = importlib.import_module("pycuda.driver")
    except ImportError as error:
        raise EngineUnavailableError(
            f"TensorRT cannot be used here: {error}; on a machine with an NVIDIA GPU run: pip install -e '.[gpu]'"
        ) from error
    except Exception as error:  # pycuda raises its own classes where there is no driver or no device
        raise EngineUnavailableError(
            f"TensorRT cannot be used here: {error}; it needs an NVIDIA GPU and its driver (try: nvidia-smi)"
        ) from error
    if not hasattr(tensorrt, "IInt8EntropyCalibrator2"):
        raise EngineUnavailableError(
            f"TensorRT {tensorrt.__version__} has no precision flags and no INT8 calibrators; "
            "install the last line that has them: pip install 'tensorrt-cu13==10.16.1.11'"
        )
    if timings := os.environ.get(TIMINGS_VARIABLE):
        _UNTIL_THE_END.enter_context(offered_timings(tensorrt, read_timings(timings, TIMINGS_VARIABLE)))
    name = driver.Context.get_device().name()
    return tensorrt, driver, f"TensorRT {tensorrt.__version__}, {name}"


def _load_cpu() -> tuple[ModuleType, ModuleType, str]:
    engine = importlib.import_module("helpers.cpu_engine")
    return engine, importlib.import_module("helpers.cpu_engine.cuda"), engine.device_description()


def _choose(asked: str) -> tuple[str, ModuleType, ModuleType, str, str]:
    """Return the engine's name, its two modules, the device, and why `auto` left an installed TensorRT alone."""
    why = ""
    if asked not in _CHOICES:
        raise InputError(f"{ENGINE_VARIABLE}={asked!r} is not an engine; choose one of {', '.join(_CHOICES)}")
    if asked != "cpu":
        try:
            return ("tensorrt", *_load_tensorrt(), "")
        except EngineUnavailableError as error:
            if asked == "tensorrt":
                raise
            if importlib.util.find_spec("tensorrt") is not None:
                why = " ".join(str(error).split())
    return ("cpu", *_load_cpu(), why)


def describe() -> dict[str, str]:
    """Return the engine as the reports name it: `name`, `version`, `device`, and a `note` where there is WHY_CPU."""
    found = {"name": ENGINE, "version": trt.__version__, "device": DEVICE}
    return {**found, "note": WHY_CPU} if WHY_CPU else found


ENGINE, trt, cuda, DEVICE, WHY_CPU = _choose(os.environ.get(ENGINE_VARIABLE, "auto").strip().lower() or "auto")
