"""Does the record of versions name what is installed, and the driver where there is a GPU?"""

import platform
import sys
from types import SimpleNamespace

import numpy
import onnxruntime
import openvino
import pytest
import torch

from helpers.engine import backend
from trtlab import versions as room
from trtlab.versions import cuda_driver, installed, versions


def test_on_the_cpu_engine_the_versions_are_those_of_the_imported_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "ENGINE", "cpu")
    found = versions()
    assert found["OpenVINO"] and openvino.__version__.startswith(found["OpenVINO"])
    assert (found["NumPy"], found["ONNX Runtime"]) == (numpy.__version__, onnxruntime.__version__)
    assert torch.__version__.startswith(found["PyTorch"])
    assert found["Python"].startswith(platform.python_version())
    assert not any("CUDA" in name or "driver" in name for name in found)


def test_a_package_that_is_not_there_has_no_version() -> None:
    assert installed("no-such-package-of-the-lab") is None


@pytest.mark.parametrize("driver", ["580.65.06", b"580.65.06"])
def test_the_driver_and_its_cuda_come_from_nvml(monkeypatch: pytest.MonkeyPatch, driver: str | bytes) -> None:
    nvml = {"nvmlInit": lambda: None, "nvmlSystemGetDriverVersion": lambda: driver}
    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace(**nvml, nvmlSystemGetCudaDriverVersion=lambda: 12080))
    assert cuda_driver() == {"NVIDIA driver": "580.65.06", "CUDA (driver)": "12.8"}


def test_a_driver_that_does_not_answer_stops_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> dict[str, str]:
        raise RuntimeError("NVML Shared Library Not Found")

    monkeypatch.setattr(backend, "ENGINE", "tensorrt")
    monkeypatch.setattr(room, "cuda_driver", fails)
    found = versions()
    assert found["NVIDIA driver"] == "unknown (NVML Shared Library Not Found)"
    assert found["CUDA (PyTorch's runtime)"] == str(torch.version.cuda) and found["TensorRT"] == backend.trt.__version__
