"""What this machine can run, what is missing, and the command that installs it. Never raises, imports nothing heavy."""

import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from helpers.engine import gpu_packages
from trtcpu.errors import LabError
from trtcpu.processor import cores
from trtlab.versions import cuda_driver, installed

_PACKAGES = ("torch", "torchvision", "onnx", "onnxruntime", "onnxsim", "openvino")
_TENSORRT = ("tensorrt", "tensorrt-cu13", "tensorrt-cu12", "tensorrt-cu13-bindings", "tensorrt-cu12-bindings")
_CPUINFO = Path("/proc/cpuinfo")
_CPU_FEATURES = {
    "AVX2": ("avx2",),
    "AVX-512": ("avx512f",),
    "VNNI": ("avx512_vnni", "avx_vnni"),
    "BF16": ("avx512_bf16", "amx_bf16"),
    "AMX": ("amx_tile",),
}
_API = {
    10: "10: precision flags and calibrators, or strong typing where the network asks for it",
    11: "11: strong typing only, the model's types and Q/DQ nodes decide",
}


@dataclass(frozen=True)
class Finding:
    """One line of the diagnosis; `remedy` is the command that mends it, if it can be mended."""

    topic: str
    found: str
    ok: bool = True
    remedy: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All findings, and the engine that the lab uses here; "" if none can start."""

    findings: list[Finding]
    engine: str


def diagnose() -> Diagnosis:
    """Return what this machine can run."""
    python = Finding("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    gpus = [*_gpus()]
    packages = [_part(name, installed(name), "not installed", "pip install -e .") for name in _PACKAGES]
    engine, started = _engine()
    return Diagnosis([python, *gpus, *_tensorrt(any(gpu.ok for gpu in gpus)), *_cpu(), *packages, *started], engine)


def _part(topic: str, found: str | None, absent: str, remedy: str = "") -> Finding:
    return Finding(topic, found or absent, bool(found), "" if found else remedy)


def _gpus() -> Iterator[Finding]:
    """Yield a finding for each NVIDIA GPU; one that is not ok if there is none to use."""
    try:
        import pynvml

        driver, cuda = cuda_driver().values()
    except Exception as error:  # no package, no driver library, or no permission: all mean that there is none to use
        yield Finding("NVIDIA GPU", f"none ({_short(error)})", ok=False)
        return
    for handle in map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount())):
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
        memory_gib = pynvml.nvmlDeviceGetMemoryInfo(handle).total / 2**30
        gpu = f"{pynvml.nvmlDeviceGetName(handle)}, compute capability {major}.{minor}, {memory_gib:.0f} GiB"
        yield Finding("NVIDIA GPU", f"{gpu}, driver {driver} (CUDA {cuda})")


def _tensorrt(has_gpu: bool) -> Iterator[Finding]:
    absent = "not installed" if has_gpu else "not installed; needs an NVIDIA GPU"
    install = gpu_packages.install_command() if has_gpu else ""
    bindings = f"pip install '{gpu_packages.CUDA_PYTHON[gpu_packages.cuda_major()]}'" if has_gpu else ""
    found = next(filter(None, map(installed, _TENSORRT)), None)
    if found and int(found.split(".")[0]) >= 11:
        note = "no precision flags, no calibrators; the lab was not run on TensorRT 11. Step 4's calibrator needs 10.16"
        found += f" ({note}: {gpu_packages.replace_command()})" if has_gpu else f" ({note})"
    there = [f"{name} {version}" for name in ("pycuda", "cuda-bindings") if (version := installed(name))]
    yield _part("TensorRT", found, absent, install)
    yield _part("pycuda or cuda-python", ", ".join(there), absent, bindings)
    yield _part("trtexec", shutil.which("trtexec"), "not on PATH; trtlab bench measures without it")


def _cpu() -> Iterator[Finding]:
    flags = set(_cpuinfo().get("flags", "").split())
    known = [name for name, any_of in _CPU_FEATURES.items() if flags & set(any_of)]
    lacking = [name for name in ("VNNI", "BF16") if name not in known]
    note = f"; without {' and '.join(lacking)}: INT8 and FP16 gain less here" if flags and lacking else ""
    yield Finding("CPU", f"{cpu_name()}, {cores()} cores")
    yield Finding("CPU features", (", ".join(known) if flags else "unknown on this system") + note)


def _engine() -> tuple[str, list[Finding]]:
    """Return the engine that the lab chooses here, and what is to be said of it; a failure is a finding."""
    asked = os.environ.get("TRT_LAB_ENGINE", "auto")
    try:
        from helpers.engine.backend import API, DEVICE, ENGINE, WHY_CPU, describe
    except Exception as error:  # a doctor reports a broken installation, it does not die of it
        remedy = "" if isinstance(error, LabError) else "pip install -e ."  # an error of ours says what to do
        why = f"cannot start (TRT_LAB_ENGINE={asked}): {_short(error)}"
        return "", [Finding("Engine", why, ok=False, remedy=remedy)]
    through = f", through {cuda}" if (cuda := describe().get("cuda")) else ""
    used = Finding("Engine", f"{ENGINE} (TRT_LAB_ENGINE={asked}): {DEVICE}{through}")
    why = [Finding("Engine", f"TensorRT is installed and not used: {WHY_CPU}", ok=False)] if WHY_CPU else []
    return ENGINE, [used, Finding("TensorRT's API", _API[API]), *why]


def cpu_name() -> str:
    """Return the processor's name, or its architecture if the system does not say it."""
    return _cpuinfo().get("model name") or platform.processor() or platform.machine()


def _cpuinfo() -> dict[str, str]:
    """Return what Linux says of the first processor."""
    text = _CPUINFO.read_text(errors="replace") if _CPUINFO.is_file() else ""
    pairs = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__
