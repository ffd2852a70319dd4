"""The doctor on machines that are not this one."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers.engine.gpu_packages import CUDA_PYTHON
from trtlab import doctor
from trtlab.doctor import Diagnosis, cpu_flags, cpu_name, diagnose


def _found(diagnosis: Diagnosis, topic: str) -> str:
    return " | ".join(finding.found for finding in diagnosis.findings if finding.topic == topic)


def _gpu(driver: str, cuda: int = 13000) -> SimpleNamespace:
    return SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlSystemGetDriverVersion=lambda: driver,
        nvmlSystemGetCudaDriverVersion=lambda: cuda,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetCudaComputeCapability=lambda handle: (9, 0),
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=141 << 30),
        nvmlDeviceGetName=lambda handle: b"NVIDIA H200",
    )


@pytest.mark.parametrize("driver, cuda, major", [("580.65.06", 13000, 13), ("550.54.15", 12040, 12)])
def test_a_gpu_without_tensorrt_gets_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, driver: str, cuda: int, major: int
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", _gpu(driver, cuda))
    monkeypatch.setattr(doctor, "installed", lambda package: None)
    diagnosis = diagnose()
    version = f"{cuda // 1000}.{cuda % 1000 // 10}"
    assert (
        _found(diagnosis, "NVIDIA GPU")
        == f"NVIDIA H200, compute capability 9.0, 141 GiB, driver {driver} (CUDA {version})"
    )
    remedies = {finding.topic: finding.remedy for finding in diagnosis.missing}
    assert remedies["TensorRT"] == f"pip install '{CUDA_PYTHON[major]}' 'tensorrt-cu{major}==10.16.1.11'"
    assert remedies["pycuda or cuda-python"] == f"pip install '{CUDA_PYTHON[major]}'"


def test_without_a_gpu_nothing_of_tensorrt_has_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    diagnosis = diagnose()
    assert _found(diagnosis, "NVIDIA GPU").startswith("none (")
    assert not {"TensorRT", "pycuda or cuda-python"} & {finding.topic for finding in diagnosis.missing}


def test_tensorrt_11_is_taken_and_what_it_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", _gpu("580.1"))
    monkeypatch.setattr(doctor, "installed", lambda package: "11.1.0")
    diagnosis = diagnose()
    found = _found(diagnosis, "TensorRT")
    assert "no precision flags" in found and "'tensorrt-cu13==10.16.1.11'" in found
    assert "TensorRT" not in {finding.topic for finding in diagnosis.missing}


def test_missing_packages_come_with_their_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "installed", lambda package: None if package == "onnxsim" else "1.0")
    assert ("onnxsim", "pip install -e .") in {(finding.topic, finding.remedy) for finding in diagnose().missing}


CPUINFO = """processor\t: 0
model name\t: AMD EPYC 9654
flags\t\t: fpu avx2 avx512f avx512_vnni avx512_bf16

processor\t: 1
model name\t: other
flags\t\t: fpu
"""


def test_the_processor_and_its_features_are_read_from_cpuinfo(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    assert cpu_name(tmp_path / "cpuinfo") == "AMD EPYC 9654"
    assert cpu_flags(tmp_path / "cpuinfo") == {"fpu", "avx2", "avx512f", "avx512_vnni", "avx512_bf16"}


def test_a_system_without_cpuinfo_has_a_name_and_no_known_features(tmp_path: Path) -> None:
    assert cpu_name(tmp_path / "none") and cpu_flags(tmp_path / "none") == set()


def test_a_processor_without_vnni_is_told_what_that_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "cpu_flags", lambda: {"avx2"})
    assert _found(diagnose(), "CPU features") == "AVX2; without VNNI and BF16: INT8 and FP16 gain less here"
