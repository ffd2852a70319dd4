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
    """Return the version of an installed package, None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def cuda_driver() -> dict[str, str]:
    """Return the NVIDIA driver's version and the newest CUDA that it can run.

    Raises:
        Exception: no package, no driver or no permission; pynvml and the import system have no common class for these.
    """
    import pynvml

    pynvml.nvmlInit()
    driver, cuda = pynvml.nvmlSystemGetDriverVersion(), pynvml.nvmlSystemGetCudaDriverVersion()
    text = driver.decode() if isinstance(driver, bytes) else driver
    return {"NVIDIA driver": text, "CUDA (driver)": f"{cuda // 1000}.{cuda % 1000 // 10}"}


def versions() -> dict[str, str]:
    """Return the version of everything that a run's numbers depend on, by name."""
    from helpers.engine.backend import ENGINE

    packages = {name: installed(package) or "not installed" for name, package in _PACKAGES.items()}
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return {**(_gpu() if ENGINE == "tensorrt" else _cpu()), **packages, "Python": python}


def _cpu() -> dict[str, str]:
    from helpers.engine.backend import trt

    return {"CPU engine": trt.__version__, "OpenVINO": installed("openvino") or "not installed"}


def _gpu() -> dict[str, str]:
    import torch

    from helpers.engine.backend import trt

    try:
        driver = cuda_driver()
    except Exception as error:  # the numbers are as good without knowing the driver
        driver = {"NVIDIA driver": f"unknown ({' '.join(str(error).split())[:80]})"}
    return {"TensorRT": trt.__version__, **driver, "CUDA (PyTorch's runtime)": str(torch.version.cuda)}
