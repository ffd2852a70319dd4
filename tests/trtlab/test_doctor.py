"""The doctor and the record of versions, also on machines that are not this one."""

import platform
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy
import openvino
import pytest
import torch

from helpers.engine import backend
from helpers.engine.gpu_packages import CUDA_PYTHON
from trtlab import doctor
from trtlab.versions import installed, versions


def _found(patch: pytest.MonkeyPatch, nvml: SimpleNamespace | None) -> dict[str, doctor.Finding]:
    patch.setitem(sys.modules, "pynvml", nvml)
    return {finding.topic: finding for finding in doctor.diagnose().findings}


def _gpu(driver: str, cuda: int) -> SimpleNamespace:
    return SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlSystemGetDriverVersion=lambda: driver,
        nvmlSystemGetCudaDriverVersion=lambda: cuda,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetCudaComputeCapability=lambda handle: (9, 0),
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=141 << 30),
        nvmlDeviceGetName=lambda handle: "NVIDIA H200",
    )


@pytest.mark.parametrize(("driver", "cuda", "shown"), [("580.65.06", 13000, "13.0"), ("550.54.15", 12040, "12.4")])
def test_a_gpu_without_tensorrt_gets_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, driver: str, cuda: int, shown: str
) -> None:
    monkeypatch.setattr(doctor, "installed", lambda package: None)
    found = _found(monkeypatch, _gpu(driver, cuda))
    gpu = found["NVIDIA GPU"].found
    assert gpu.startswith("NVIDIA H200, compute capability 9.0, 141 GiB, driver 5") and gpu.endswith(f"(CUDA {shown})")
    binding = f"pip install '{CUDA_PYTHON[cuda // 1000]}'"
    assert found["TensorRT"].remedy == f"{binding} 'tensorrt-cu{cuda // 1000}==10.16.1.11'"
    assert found["pycuda or cuda-python"].remedy == binding
    assert found["onnxsim"].remedy == "pip install -e ."


def test_without_a_gpu_nothing_of_tensorrt_has_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _found(monkeypatch, None)
    assert found["NVIDIA GPU"].found.startswith("none (")
    assert found["TensorRT"].remedy == found["pycuda or cuda-python"].remedy == ""


def test_tensorrt_11_is_taken_and_what_it_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "installed", lambda package: "11.1.0")
    found = _found(monkeypatch, _gpu("580.1", 13000))["TensorRT"]
    assert "no precision flags" in found.found and "'tensorrt-cu13==10.16.1.11'" in found.found
    assert found.ok and not found.remedy


@pytest.mark.parametrize(
    ("flags", "features"),
    [
        ("avx2 avx512f avx512_vnni avx512_bf16", "AVX2, AVX-512, VNNI, BF16"),
        ("avx2", "AVX2; without VNNI and BF16: INT8 and FP16 gain less here"),
        (None, "unknown on this system"),
    ],
)
def test_the_processor_and_its_features_are_the_first_of_cpuinfo(
    flags: str | None, features: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "_CPUINFO", tmp_path / "cpuinfo")
    if flags:
        (tmp_path / "cpuinfo").write_text(
            f"processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu {flags}\n\nprocessor\t: 1\nflags\t\t: fpu\n"
        )
    found = _found(monkeypatch, None)
    assert found["CPU features"].found == features and found["CPU"].found.startswith("AMD EPYC, " if flags else "")


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
