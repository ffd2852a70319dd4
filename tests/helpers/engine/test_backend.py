"""Which engine `auto` takes, and that it says why where a TensorRT is installed that it cannot use.

Each case is a process of its own with made-up packages in front of the installed ones.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ASK = "import json, helpers.engine.backend as b; print(json.dumps([b.ENGINE, b.describe().get('note', '')]))"
PYCUDA = {"pycuda/__init__.py": "", "pycuda/autoprimaryctx.py": "", "pycuda/driver.py": ""}
BROKEN = {"tensorrt.py": "raise ImportError('libnvinfer.so.10: cannot open shared object file')"}
NO_DRIVER = {"tensorrt.py": "__version__ = '11.4.0.106'"} | PYCUDA
NO_DRIVER["pycuda/autoprimaryctx.py"] = "raise RuntimeError('cuInit failed: no CUDA-capable device is detected')"
CUDA_PYTHON = {
    "cuda/__init__.py": "",
    "cuda/bindings/__init__.py": "",
    "cuda/bindings/driver.py": "import sys, tests.fake_cuda as fake; sys.modules[__name__] = fake.FakeDriver()",
}
TIMED = """
class Config:
    def create_timing_cache(self, content): return content
    def set_timing_cache(self, cache, ignore_mismatch): self.cache = cache
class Builder:
    def create_builder_config(self): return Config()
__version__ = "8.6.0"
"""
ASKED = [("10", "10 10.16.1.11+cpu"), ("11", "11 11.4.0.106+cpu"), ("", "10 10.16.1.11+cpu")]
DEVICE = """
class Context:
    @staticmethod
    def get_device(): return Context()
    def name(self): return "a GPU"
"""


def _python(
    folder: Path, files: dict[str, str], engine: str, *arguments: str, **more: str
) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "TRT_LAB_ENGINE": engine, **more}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    "files, reason",
    [
        (BROKEN, "libnvinfer.so.10: cannot open shared object file"),
        (NO_DRIVER, "no CUDA-capable device is detected"),
    ],
    ids=["a broken installation", "no driver"],
)
def test_auto_says_why_it_does_not_use_an_installed_tensorrt(
    tmp_path: Path, files: dict[str, str], reason: str
) -> None:
    done = _python(tmp_path, files, "auto", "-c", ASK)
    engine, note = json.loads(done.stdout)
    assert engine == "cpu" and reason in note and "\n" not in note
    assert done.stderr == ""


@pytest.mark.parametrize("version, api", [("8.6.1", 10), ("10.16.1.11", 10), ("11.4.0.106", 11), ("12.0.0", 11)])
def test_auto_takes_the_tensorrt_that_is_installed_and_tells_its_api(tmp_path: Path, version: str, api: int) -> None:
    files = {"tensorrt.py": f"__version__ = {version!r}"} | PYCUDA | {"pycuda/driver.py": DEVICE}
    ask = "import helpers.engine.backend as b; print(b.ENGINE, b.API, b.describe()['api'], b.DEVICE)"
    done = _python(tmp_path, files, "auto", "-c", ask, TRT_LAB_API="10")
    assert done.stdout.split(maxsplit=3) == ["tensorrt", str(api), str(api), f"TensorRT {version}, a GPU\n"]


@pytest.mark.parametrize("asked, found", ASKED)
def test_the_cpu_engine_speaks_the_api_that_is_asked_for(tmp_path: Path, asked: str, found: str) -> None:
    ask = "import helpers.engine.backend as b; print(b.describe()['api'], b.trt.__version__, b.API)"
    done = _python(tmp_path, {}, "cpu", "-c", ask, TRT_LAB_API=asked)
    assert done.stdout.split() == [*found.split(), found[:2]]


def test_an_api_that_the_cpu_engine_does_not_speak_is_one_line(tmp_path: Path) -> None:
    done = _python(tmp_path, {}, "cpu", "-m", "trtlab", "doctor", TRT_LAB_API="9")
    assert done.returncode
    assert "TRT_LAB_API='9' is no version that the CPU engine speaks; choose 10 or 11" in " ".join(done.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "variable, value, said",
    [
        ("TRT_LAB_API", "12", "TRT_LAB_API='12' is no version that"),
        ("TRT_LAB_MODEL", "resnet-18", "TRT_LAB_MODEL='resnet-18' is no model of the lab; choose one of resnet18, "),
        ("TRT_LAB_QUICK", "yes", "TRT_LAB_QUICK='yes' is no switch; set it to 1, or to 0"),
        ("TRT_LAB_ENGINE", "gpu", "TRT_LAB_ENGINE='gpu' is not an engine; choose one of auto, tensorrt, cpu"),
        ("TRT_LAB_ENGINE", "tensorrt", "TensorRT cannot be used here: no libnvinfer"),
    ],
)
def test_a_variable_that_cannot_be_ends_a_command_with_one_line_and_exit_code_2(
    tmp_path: Path, variable: str, value: str, said: str
) -> None:
    (tmp_path / "tensorrt.py").write_text("raise ImportError('no libnvinfer')")
    search = f"{tmp_path}{os.pathsep}{ROOT}"
    environment = {**os.environ, "PYTHONPATH": search, "TRT_LAB_ENGINE": "cpu", variable: value}
    command = [sys.executable, "-m", "solutions.grading", "--dry-run"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"error: {said}")


def test_another_error_keeps_its_traceback(tmp_path: Path) -> None:
    code = "from trtcpu.errors import *; SettingError('a'), SettingError('b'); raise InputError('c')"
    done = _python(tmp_path, {}, "cpu", "-c", code)
    assert done.returncode == 1 and done.stderr.startswith("Traceback ") and done.stderr.endswith("InputError: c\n")


def test_the_doctor_names_the_api(tmp_path: Path) -> None:
    done = _python(tmp_path, {}, "cpu", "-m", "trtlab", "doctor", TRT_LAB_API="11")
    assert "11: strong typing only" in " ".join(done.stdout.split()), done.stdout + done.stderr


@pytest.mark.parametrize(
    "asked, files, named",
    [
        ("auto", PYCUDA | CUDA_PYTHON, "pycuda "),
        ("auto", CUDA_PYTHON | {"pycuda/__init__.py": "raise ImportError('built for another CUDA')"}, "cuda-python "),
        ("pycuda", PYCUDA | CUDA_PYTHON, "pycuda "),
        ("cuda-python", PYCUDA | CUDA_PYTHON, "cuda-python "),
    ],
    ids=["both", "a pycuda that cannot be imported", "pycuda", "cuda-python"],
)
def test_cuda_is_pycuda_where_it_works_else_cuda_python(
    tmp_path: Path, asked: str, files: dict[str, str], named: str
) -> None:
    files = files | {"tensorrt.py": TIMED}
    if "pycuda/driver.py" in files:
        files["pycuda/driver.py"] = DEVICE
    ask = "import helpers.engine.backend as b; print(b.cuda.__name__, '|', b.describe()['cuda'], '|', b.DEVICE)"
    found = _python(tmp_path, files, "tensorrt", "-c", ask, TRT_LAB_CUDA=asked).stdout.strip().split(" | ")
    module = "pycuda.driver" if named == "pycuda " else "helpers.engine.cuda_python"
    device = "a GPU" if named == "pycuda " else "A GPU in memory"
    assert found[0] == module and found[1].startswith(named) and found[2] == f"TensorRT 8.6.0, {device}"


def test_the_doctor_says_through_which_package_cuda_is_used(tmp_path: Path) -> None:
    files = CUDA_PYTHON | {"tensorrt.py": TIMED}
    done = _python(tmp_path, files, "tensorrt", "-m", "trtlab", "doctor", TRT_LAB_CUDA="cuda-python")
    assert "A GPU in memory, through cuda-python " in " ".join(done.stdout.split()), done.stdout + done.stderr


def test_asking_for_a_cuda_that_nobody_knows_is_one_line(tmp_path: Path) -> None:
    done = _python(tmp_path, {}, "tensorrt", "-m", "trtlab", "doctor", TRT_LAB_CUDA="cupy")
    assert (
        done.returncode
        and "TRT_LAB_CUDA='cupy' is not a way to CUDA; choose one of auto, pycuda, cuda-python" in done.stdout
    )


def test_tensorrt_without_any_cuda_package_is_told_how_to_get_one(tmp_path: Path) -> None:
    files = {"tensorrt.py": TIMED, "cuda/__init__.py": "", "pycuda/__init__.py": "raise ImportError"}
    done = _python(tmp_path, files, "auto", "-c", ASK)
    assert "No module named 'cuda.bindings'" in done.stdout and "pip install 'cuda-bindings" in done.stdout


@pytest.mark.parametrize("files", [BROKEN, NO_DRIVER], ids=["broken", "no driver"])
def test_asking_for_tensorrt_where_it_cannot_run_is_an_error(tmp_path: Path, files: dict[str, str]) -> None:
    done = _python(tmp_path, files, "tensorrt", "-c", "import helpers.engine.backend")
    assert done.returncode == 2 and done.stderr.startswith("error: TensorRT cannot be used here: ")


def test_asking_for_the_cpu_engine_needs_no_reason(tmp_path: Path) -> None:
    assert json.loads(_python(tmp_path, BROKEN, "cpu", "-c", ASK).stdout) == ["cpu", ""]


def test_the_doctor_tells_the_reason_in_one_line(tmp_path: Path) -> None:
    done = _python(tmp_path, BROKEN, "auto", "-m", "trtlab", "doctor")
    assert done.returncode == 0
    assert "TensorRT is installed and not used: TensorRT cannot be used here: libnvinfer.so.10" in done.stdout


@pytest.mark.slow
def test_the_progress_of_the_start_page_tells_the_reason(tmp_path: Path) -> None:
    done = _python(tmp_path, BROKEN, "auto", "-c", "from helpers.checks import feedback; print(feedback.progress())")
    said = done.stdout.splitlines()[0]
    assert "No GPU in use: CPU engine" in said and "not used: TensorRT cannot be used here: libnvinfer" in said


def test_every_configuration_gets_the_timings_of_the_file_as_long_as_the_process_runs(tmp_path: Path) -> None:
    files = {"tensorrt.py": TIMED} | PYCUDA | {"pycuda/driver.py": DEVICE}
    (timings := tmp_path / "timing.cache").write_bytes(b"kernel timings")
    ask = "import gc; from helpers import trt; gc.collect(); print(trt.Builder().create_builder_config().cache)"
    environment = {"TRT_LAB_TIMING_CACHE": str(timings)}
    assert _python(tmp_path, files, "tensorrt", "-c", ask, **environment).stdout.strip() == "b'kernel timings'"
