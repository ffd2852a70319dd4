"""On a GPU: `cuda`, PyTorch and TensorRT work in one context, whichever came first and through whichever package."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.engine.backend import ENGINE

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(ENGINE != "tensorrt", reason="needs real TensorRT on an NVIDIA GPU"),
]
ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"pycuda": "pycuda", "cuda-python": "cuda"}
TORCH_FIRST = "import torch; torch.zeros(1, device='cuda')\n"
SHARED = """
import numpy as np
from helpers.engine.backend import cuda
import torch
tensor = torch.arange(8, dtype=torch.float32, device="cuda")
torch.cuda.synchronize()
assert cuda.from_device(tensor.data_ptr(), 8, np.float32).tolist() == list(range(8))
cuda.memset_d8(tensor.data_ptr(), 0, 32)
assert not tensor.any()

class Borrowed:
    memory = cuda.to_device(np.full(8, 3, np.float32))
    __cuda_array_interface__ = {"shape": (8,), "typestr": "<f4", "data": (int(memory), False), "version": 3}

assert torch.as_tensor(Borrowed(), device="cuda").sum().item() == 24
stream = cuda.Stream()
with torch.cuda.stream(torch.cuda.ExternalStream(stream.handle)):
    product = torch.ones(512, 512, device="cuda") @ torch.ones(512, 512, device="cuda")
    host = cuda.pagelocked_zeros((512, 512), np.float32)
    cuda.memcpy_dtoh_async(host, product.data_ptr(), stream)
stream.synchronize()
assert (host == 512).all()
print("shared")
"""


@pytest.mark.parametrize("before", ["", TORCH_FIRST], ids=["cuda first", "torch first"])
@pytest.mark.parametrize("package", PACKAGES)
def test_tensors_of_pytorch_and_memory_of_cuda_are_in_one_context(package: str, before: str) -> None:
    if importlib.util.find_spec(PACKAGES[package]) is None:
        pytest.skip(f"{package} is not installed here")
    done = subprocess.run(
        [sys.executable, "-c", before + SHARED],
        cwd=ROOT,
        env={**os.environ, "TRT_LAB_CUDA": package},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0 and done.stdout.strip() == "shared", done.stderr[-2000:]
