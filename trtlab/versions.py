"""What a measurement was made with: the versions of the engine, its libraries, Python, CUDA and the driver."""

import importlib.metadata
import platform

_PACKAGES = {
    "PyTorch": "torch",
    "torchvision": "torchvision",
    "ONNX": "onnx",
    "ONNX Runtime": "onnxruntime",
    "onnxsim": "onnxsim",
    "NumPy": "numpy",
    "lab": "trt-lab",
}


def installed(package: str) -> str | None:
    """Return the version of an installed package, None if it is not installed."""
    return next((found.version for found in importlib.metadata.distributions(name=package)), None)


def cuda_driver() -> dict[str, str]:
    """Return the NVIDIA driver's version and the newest CUDA that it can run.

    Raises:
        Exception: no package, no driver or no permission; pynvml and the import system have no common class for these.
    """
    import pynvml

    pynvml.nvmlInit()
    cuda = pynvml.nvmlSystemGetCudaDriverVersion()
    newest = f"{cuda // 1000}.{cuda % 1000 // 10}"
    return {"NVIDIA driver": pynvml.nvmlSystemGetDriverVersion(), "CUDA (driver)": newest}


def versions() -> dict[str, str]:
    """Return the version of everything that a run's numbers depend on, by name."""
    from helpers.engine.backend import ENGINE, trt

    if ENGINE == "tensorrt":
        engine = {"TensorRT": trt.__version__, **_cuda()}
    else:
        engine = {"CPU engine": trt.__version__, "OpenVINO": installed("openvino") or "not installed"}
    packages = {name: installed(package) or "not installed" for name, package in _PACKAGES.items()}
    return {**engine, **packages, "Python": f"{platform.python_version()} on {platform.system()} {platform.machine()}"}


def _cuda() -> dict[str, str]:
    import torch

    try:
        driver = cuda_driver()
    except Exception as error:  # the numbers are as good without knowing the driver
        driver = {"NVIDIA driver": f"unknown ({' '.join(str(error).split())[:80]})"}
    return {**driver, "CUDA (PyTorch's runtime)": str(torch.version.cuda)}
