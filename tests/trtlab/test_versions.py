"""Does the record of versions name what is installed, and the driver where there is a GPU?"""

import platform
import sys
from types import SimpleNamespace

import numpy
import openvino
import pytest
import torch

from helpers.engine import backend
from trtlab.versions import installed, versions


def test_on_the_cpu_engine_the_versions_are_those_of_the_imported_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "ENGINE", "cpu")
    found = versions()
    assert found["OpenVINO"] and openvino.__version__.startswith(found["OpenVINO"])
    assert found["NumPy"] == numpy.__version__ and found["Python"].startswith(platform.python_version())
    assert torch.__version__.startswith(found["PyTorch"])
    assert installed("no-such-package-of-the-lab") is None
    assert not any("CUDA" in name or "driver" in name for name in found)


@pytest.mark.parametrize("driver", ["580.65.06", None])
def test_on_a_gpu_the_driver_and_its_cuda_are_named_and_its_silence_stops_no_measurement(
    monkeypatch: pytest.MonkeyPatch, driver: str | None
) -> None:
    def initialised() -> None:
        if driver is None:
            raise RuntimeError("NVML Shared Library Not Found")

    nvml = {"nvmlInit": initialised, "nvmlSystemGetDriverVersion": lambda: driver}
    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace(**nvml, nvmlSystemGetCudaDriverVersion=lambda: 12080))
    monkeypatch.setattr(backend, "ENGINE", "tensorrt")
    found = versions()
    assert found["CUDA (PyTorch's runtime)"] == str(torch.version.cuda) and found["TensorRT"] == backend.trt.__version__
    named = (found["NVIDIA driver"], found.get("CUDA (driver)"))
    assert named == (("580.65.06", "12.8") if driver else ("unknown (NVML Shared Library Not Found)", None))
