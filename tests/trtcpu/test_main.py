"""Scripts that know nothing of the CPU engine, run by `python -m trtcpu` as they are."""

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.toys.networks import tiny_onnx

BUILD = """
import sys
import numpy as np
import tensorrt as trt
{imports}

assert sys.argv[1:] == ["--onnx", "model.onnx"], sys.argv
logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
assert trt.OnnxParser(network, logger).parse_from_file(sys.argv[2])
plan = builder.build_serialized_network(network, builder.create_builder_config())
context = trt.Runtime(logger).deserialize_cuda_engine(plan).create_execution_context()
given, found = np.ones((2, 3, 16, 16), np.float32), np.empty((2, 10), np.float32)
{run}
assert np.isfinite(found).all() and found.any()
print("ran on", trt.__version__)
"""
PYCUDA = (
    "import pycuda.autoinit\nimport pycuda.driver as cuda",
    """
memory = {name: cuda.mem_alloc(array.nbytes) for name, array in (("input", given), ("output", found))}
stream = cuda.Stream()
cuda.memcpy_htod_async(memory["input"], given, stream)
for name, address in memory.items():
    context.set_tensor_address(name, int(address))
assert context.execute_async_v3(stream.handle)
cuda.memcpy_dtoh_async(found, memory["output"], stream)
stream.synchronize()
""",
)
CUDA_PYTHON = """
def checked(call):
    error, *values = call
    assert error == cudart.cudaError_t.cudaSuccess, cudart.cudaGetErrorString(error)
    return values[0] if values else None

kinds, stream = cudart.cudaMemcpyKind, checked(cudart.cudaStreamCreate())
memory = {name: checked(cudart.cudaMalloc(array.nbytes)) for name, array in (("input", given), ("output", found))}
upload = (memory["input"], given.ctypes.data, given.nbytes, kinds.cudaMemcpyHostToDevice, stream)
checked(cudart.cudaMemcpyAsync(*upload))
for name, address in memory.items():
    context.set_tensor_address(name, address)
assert context.execute_async_v3(stream)
checked(cudart.cudaMemcpyAsync(found, memory["output"], found.nbytes, kinds.cudaMemcpyDeviceToHost, stream))
checked(cudart.cudaStreamSynchronize(stream))
checked(cudart.cudaFree(memory["input"]))
assert cudart.cudaFree(1)[0] == cudart.cudaError_t.cudaErrorInvalidValue
checked(cudart.cudaStreamDestroy(stream))
"""
SCRIPTS = {
    "pycuda": PYCUDA,
    "cuda_python_12": ("from cuda import cudart", CUDA_PYTHON),
    "cuda_python_13": ("from cuda.bindings import driver, runtime as cudart", CUDA_PYTHON),
}


def ran(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "trtcpu", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("kind", SCRIPTS)
def test_script_runs_as_it_is(kind: str, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(tiny_onnx(0, batch=2, image=(3, 16, 16)))
    imports, run = SCRIPTS[kind]
    (tmp_path / "infer.py").write_text(BUILD.format(imports=imports, run=run))
    done = ran(tmp_path, "infer.py", "--onnx", "model.onnx")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("ran on 1")


def test_module_and_the_processes_that_it_starts_find_the_names(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import subprocess, sys\n"
        "code = 'import tensorrt, pycuda.driver; print(tensorrt.__version__)'\n"
        "subprocess.run([sys.executable, '-c', code], check=True)"
    )
    done = ran(tmp_path, "-m", "mine")
    assert done.returncode == 0 and "+cpu" in done.stdout


@pytest.mark.parametrize(
    "arguments, said", [((), "usage: python -m trtcpu"), (("absent.py",), "there is no script absent.py")]
)
def test_nothing_to_run_is_one_line(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = ran(tmp_path, *arguments)
    assert done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr


def test_library_that_ctypes_loads_is_the_cpu_engine_s(tmp_path: Path) -> None:
    """As Polygraphy uses it: results by number, values by reference, addresses as void pointers."""
    (tmp_path / "library.py").write_text(
        "import ctypes, tensorrt\n"
        "cuda, place = ctypes.CDLL('libcudart.so'), ctypes.c_void_p()\n"
        "assert cuda.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(8)) == 0\n"
        "given, back = (ctypes.c_uint8 * 8)(*range(8)), (ctypes.c_uint8 * 8)()\n"
        "size = ctypes.c_size_t(8)\n"
        "assert cuda.cudaMemcpy(place, ctypes.c_void_p(ctypes.addressof(given)), size, ctypes.c_int(1)) == 0\n"
        "assert cuda.cudaMemcpy(ctypes.c_void_p(ctypes.addressof(back)), place, size, ctypes.c_int(2)) == 0\n"
        "assert bytes(back) == bytes(range(8)), bytes(back)\n"
        "assert cuda.cudaFree(place) == 0 and cuda.cudaFree(ctypes.c_void_p()) == 0\n"
    )
    done = ran(tmp_path, "library.py")
    assert (done.returncode, done.stderr) == (0, "")
