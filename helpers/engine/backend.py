"""The only place that chooses the engine.

    from helpers.engine.backend import trt, cuda, DEVICE, API

`trt` is the real `tensorrt` where it and an NVIDIA GPU are present, and `cuda` then is `pycuda.driver` where that is
installed, else the same names on NVIDIA's cuda-python (cuda_python beside this file), whose wheels need no compiler.
Elsewhere both are the CPU engine (TensorRT's Python API on OpenVINO). `TRT_LAB_ENGINE=auto|tensorrt|cpu` and
`TRT_LAB_CUDA=auto|pycuda|cuda-python` override the choices; asking for what cannot run raises `EngineUnavailableError`.
`API` is 10 or 11: whether precision flags and calibrators are there (TensorRT 8.6 counts as 10), or every network takes
its types from the model. With real TensorRT its version decides, on the CPU engine `TRT_LAB_API=10|11`.

Where a TensorRT is installed and `auto` cannot use it, `WHY_CPU` and `describe()` say why; no warning does, since text
on stderr costs a graded cell its points.

On real TensorRT, where a build spends its time timing kernels, `TRT_LAB_TIMING_CACHE` may name a file of timings that
every build looks up: graders set it.
"""

import importlib
import importlib.util
import os
from contextlib import ExitStack
from importlib import metadata
from types import ModuleType
from typing import NamedTuple

from helpers.engine.gpu_packages import install_command
from helpers.engine.timings import offered_timings, read_timings
from helpers.tools.term import ENGINE_CHOICES, TERM
from trtcpu.errors import EngineUnavailableError, LabError, SettingError

ENGINE_VARIABLE = "TRT_LAB_ENGINE"
CUDA_VARIABLE = "TRT_LAB_CUDA"
TIMINGS_VARIABLE = "TRT_LAB_TIMING_CACHE"
_UNTIL_THE_END = ExitStack()  # what is entered here holds as long as the process: nobody closes it
_CHOICES = {
    ENGINE_VARIABLE: ("an engine", ENGINE_CHOICES),
    CUDA_VARIABLE: ("a way to CUDA", ("auto", "pycuda", "cuda-python")),
}


class Loaded(NamedTuple):
    """An engine: its name, its two modules, the device, and the package behind `cuda` if that is a GPU's."""

    name: str
    trt: ModuleType
    cuda: ModuleType
    device: str
    cuda_name: str = ""


def _asked(variable: str) -> str:
    """Return what an environment variable asks for; the engine may be course.toml's choice."""
    asked = os.environ.get(variable, "auto").strip().lower() or "auto"
    if asked == "auto" and variable == ENGINE_VARIABLE and TERM.engine:
        asked = TERM.engine
    kind, choices = _CHOICES[variable]
    if asked not in choices:
        raise SettingError(f"{variable}={asked!r} is not {kind}; choose one of {', '.join(choices)}")
    return asked


def _load_tensorrt() -> Loaded:
    """Import real TensorRT, and CUDA in torch's primary context; the device string names version and GPU."""
    asked = _asked(CUDA_VARIABLE)
    try:
        tensorrt = importlib.import_module("tensorrt")
        driver, name = _load_cuda(asked)
    except LabError:
        raise
    except ImportError as error:
        raise EngineUnavailableError(
            f"TensorRT cannot be used here: {error}; on a machine with an NVIDIA GPU run: {install_command()}"
        ) from error
    except Exception as error:  # both drivers raise classes of their own if there is no driver or no device
        raise EngineUnavailableError(
            f"TensorRT cannot be used here: {error}; it needs an NVIDIA GPU and its driver (try: nvidia-smi)"
        ) from error
    if timings := os.environ.get(TIMINGS_VARIABLE):
        _UNTIL_THE_END.enter_context(offered_timings(tensorrt, read_timings(timings, TIMINGS_VARIABLE)))
    device = f"TensorRT {tensorrt.__version__}, {driver.Context.get_device().name()}"
    return Loaded("tensorrt", tensorrt, driver, device, name)


def _load_cuda(asked: str) -> tuple[ModuleType, str]:
    """Return pycuda.driver, or the same names on cuda-python, in torch's primary context; and its name with version."""
    if asked == "pycuda" or asked == "auto" and importlib.util.find_spec("pycuda") is not None:
        try:
            importlib.import_module("pycuda.autoprimaryctx")
            return importlib.import_module("pycuda.driver"), f"pycuda {_version('pycuda')}"
        except ImportError:  # a pycuda that was built for another CUDA or Python
            if asked == "pycuda":
                raise
    driver = importlib.import_module("helpers.engine.cuda_python")
    driver.use_primary_context()
    return driver, f"cuda-python {_version('cuda-bindings')}"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "of an unknown version"


def _load_cpu() -> Loaded:
    engine = importlib.import_module("trtcpu.tensorrt")
    return Loaded("cpu", engine, importlib.import_module("trtcpu.cuda"), engine.device_description())


def _choose(asked: str) -> tuple[Loaded, str]:
    """Return the engine, and why `auto` left an installed TensorRT alone."""
    why = ""
    if asked != "cpu":
        try:
            return _load_tensorrt(), ""
        except EngineUnavailableError as error:
            if asked == "tensorrt":
                raise
            if importlib.util.find_spec("tensorrt") is not None:
                why = " ".join(str(error).split())
    return _load_cpu(), why


def describe() -> dict[str, str]:
    """Return the engine as the reports name it: `name`, `version`, `api` ("10" or "11") and `device`.

    With real TensorRT `cuda` is the package behind it ("pycuda 2026.1", "cuda-python 13.0.3"); WHY_CPU is the `note`.
    """
    found = {"name": ENGINE, "version": trt.__version__, "api": str(API), "device": DEVICE}
    return {
        **found,
        **({"cuda": _loaded.cuda_name} if _loaded.cuda_name else {}),
        **({"note": WHY_CPU} if WHY_CPU else {}),
    }


def network_flags() -> int:
    """Return create_network's flags for a batch that is a dimension: 8 has to be told, 11 has no name for it."""
    explicit = getattr(trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)
    return 0 if explicit is None else 1 << int(explicit)


def load_ahead() -> None:
    """Have real TensorRT load what a builder needs, and keep it as long as this process.

    A builder waits 7 to 11 s for it on an H100's host (TensorRT 8.6), and it is given back with the last builder: so a
    process that makes one after the other waits each time, unless one is kept. Others log to loggers of their own.
    """
    if ENGINE == "tensorrt":
        _UNTIL_THE_END.enter_context(trt.Builder(trt.Logger(trt.Logger.ERROR)))


_loaded, WHY_CPU = _choose(_asked(ENGINE_VARIABLE))
ENGINE, trt, cuda, DEVICE = _loaded.name, _loaded.trt, _loaded.cuda, _loaded.device
API = 11 if int(trt.__version__.split(".")[0]) >= 11 else 10
