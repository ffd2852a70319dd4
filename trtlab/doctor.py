"""What this machine can run, what is missing, and the command that installs it. Never raises, imports nothing heavy."""

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from helpers.engine import gpu_packages
from trtcpu.errors import LabError
from trtlab.versions import cuda_driver, installed

_PACKAGES = ("torch", "torchvision", "onnx", "onnxruntime", "onnxsim", "openvino")
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
    """One line of the diagnosis; `remedy` is the command that mends it, where it can be mended."""

    topic: str
    found: str
    ok: bool = True
    remedy: str = ""


@dataclass
class Diagnosis:
    """All findings, and the engine that the lab uses here."""

    findings: list[Finding] = field(default_factory=list)
    engine: str = ""

    @property
    def missing(self) -> list[Finding]:
        """The findings that have a remedy."""
        return [finding for finding in self.findings if finding.remedy]

    def add(self, topic: str, found: str, ok: bool = True, remedy: str = "") -> None:
        """Append a finding."""
        self.findings.append(Finding(topic, found, ok, remedy))


def diagnose() -> Diagnosis:
    """Return what this machine can run."""
    diagnosis = Diagnosis()
    diagnosis.add("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    _tensorrt(diagnosis, has_gpu=_gpus(diagnosis))
    _cpu(diagnosis)
    _packages(diagnosis)
    diagnosis.engine = _engine(diagnosis)
    return diagnosis


def _gpus(diagnosis: Diagnosis) -> bool:
    """Add the NVIDIA GPUs; tells whether there is one."""
    try:
        import pynvml

        driver, cuda = cuda_driver().values()
    except Exception as error:  # no package, no driver library, or no permission: all mean that there is none to use
        diagnosis.add("NVIDIA GPU", f"none ({_short(error)})", ok=False)
        return False
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    for handle in handles:
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
        memory_gib = pynvml.nvmlDeviceGetMemoryInfo(handle).total / 2**30
        name = _text(pynvml.nvmlDeviceGetName(handle))
        found = f"{name}, compute capability {major}.{minor}, {memory_gib:.0f} GiB, driver {driver} (CUDA {cuda})"
        diagnosis.add("NVIDIA GPU", found)
    return bool(handles)


def _tensorrt(diagnosis: Diagnosis, has_gpu: bool) -> None:
    found = next((version for name in _tensorrt_names() if (version := installed(name))), None)
    absent = "not installed" + ("" if has_gpu else "; needs an NVIDIA GPU")
    if found and int(found.split(".")[0]) >= 11:
        note = "no precision flags, no calibrators; the lab was not run on TensorRT 11. Step 4's calibrator needs 10.16"
        diagnosis.add("TensorRT", f"{found} ({note}{': ' + gpu_packages.replace_command() if has_gpu else ''})")
    else:
        remedy = gpu_packages.install_command() if has_gpu and not found else ""
        diagnosis.add("TensorRT", found or absent, bool(found), remedy)
    there = [f"{name} {version}" for name in ("pycuda", "cuda-bindings") if (version := installed(name))]
    remedy = f"pip install '{gpu_packages.CUDA_PYTHON[gpu_packages.cuda_major()]}'" if has_gpu and not there else ""
    diagnosis.add("pycuda or cuda-python", ", ".join(there) or absent, bool(there), remedy)
    trtexec = shutil.which("trtexec")
    diagnosis.add("trtexec", trtexec or "not on PATH; trtlab bench measures without it", bool(trtexec))


def _tensorrt_names() -> tuple[str, ...]:
    return ("tensorrt", "tensorrt-cu13", "tensorrt-cu12", "tensorrt-cu13-bindings", "tensorrt-cu12-bindings")


def _cpu(diagnosis: Diagnosis) -> None:
    flags = cpu_flags()
    known = [name for name, any_of in _CPU_FEATURES.items() if flags & set(any_of)]
    lacking = [name for name in ("VNNI", "BF16") if name not in known]
    note = f"; without {' and '.join(lacking)}: INT8 and FP16 gain less here" if flags and lacking else ""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    diagnosis.add("CPU", f"{cpu_name()}, {cores} cores")
    diagnosis.add("CPU features", (", ".join(known) if flags else "unknown on this system") + note)


def _packages(diagnosis: Diagnosis) -> None:
    for package in _PACKAGES:
        version = installed(package)
        diagnosis.add(package, version or "not installed", bool(version), "" if version else "pip install -e .")


def _engine(diagnosis: Diagnosis) -> str:
    """Return the engine that the lab chooses here; a failure becomes a finding."""
    asked = os.environ.get("TRT_LAB_ENGINE", "auto")
    try:
        from helpers.engine.backend import API, DEVICE, ENGINE, WHY_CPU, describe
    except Exception as error:  # a doctor reports a broken installation, it does not die of it
        remedy = "" if isinstance(error, LabError) else "pip install -e ."  # an error of ours says what to do
        diagnosis.add("Engine", f"cannot start (TRT_LAB_ENGINE={asked}): {_short(error)}", False, remedy)
        return ""
    through = f", through {cuda}" if (cuda := describe().get("cuda")) else ""
    diagnosis.add("Engine", f"{ENGINE} (TRT_LAB_ENGINE={asked}): {DEVICE}{through}")
    diagnosis.add("TensorRT's API", _API[API])
    if WHY_CPU:
        diagnosis.add("Engine", f"TensorRT is installed and not used: {WHY_CPU}", ok=False)
    return ENGINE


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> set[str]:
    """Return the first processor's feature flags; empty where the system does not list them."""
    return set(_cpuinfo(cpuinfo).get("flags", "").split())


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's name."""
    return _cpuinfo(cpuinfo).get("model name") or _sysctl() or platform.processor() or platform.machine()


def _cpuinfo(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(errors="replace").split("\n\n")[0].splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _sysctl() -> str:
    try:
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=False).stdout.strip()
    except OSError:
        return ""


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
