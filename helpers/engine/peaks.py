"""The peaks of this machine, measured: arithmetic by a large matrix product, bandwidth by a large copy."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from helpers.engine.arithmetic import has_half

ITEM_BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "int8": 1}
CPU_SIZE, GPU_SIZE = 1024, 8192
COPY_BYTES = {"cpu": 1 << 28, "cuda": 1 << 30}
LEAST_REPEATS, LEAST_SECONDS = 32, 0.5


def measured_peaks(
    precisions: Iterable[str], device: str, threads: int | None = None
) -> tuple[dict[str, float], float]:
    """Measure on `device` ("cpu" or "cuda").

    On a CPU each is measured in what engines compute in there: fp16 and bf16 in bf16, or in fp32 if the processor
    has no half precision, tf32 in fp32.

    Returns:
        GFLOP/s by precision (of int8: giga-operations), without those that cannot be multiplied here; and the
        bandwidth in GB/s, reads plus writes.
    """
    import torch

    if device == "cpu" and threads:
        torch.set_num_threads(threads)
    peaks = {}
    for precision in sorted(set(precisions) & set(ITEM_BYTES)):
        try:
            peaks[precision] = _peak_gflops(torch, precision, device, threads)
        except (RuntimeError, NotImplementedError):  # no kernel of this precision on this device
            continue
    return peaks, _bandwidth(torch, device)


def _peak_gflops(torch: Any, precision: str, device: str, threads: int | None) -> float:
    size = GPU_SIZE if device == "cuda" else CPU_SIZE
    if precision == "int8":
        codes = [torch.randint(-127, 127, (size, size), dtype=torch.int8, device=device) for _ in range(2)]
        product = _int8_on_gpu(torch, *codes) if device == "cuda" else _int8_on_cpu(*codes, threads)
        return 2 * size**3 / _best_seconds(torch, device, product) / 1e9
    kind = _torch_type(torch, precision, device)
    left, right = (torch.randn(size, size, device=device).to(kind) for _ in range(2))
    out = torch.empty_like(left)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    try:
        seconds = _best_seconds(torch, device, lambda: torch.matmul(left, right, out=out))
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    return 2 * size**3 / seconds / 1e9


def _int8_on_gpu(torch: Any, left: Any, right: Any) -> Callable[[], Any]:
    right = right.t()  # tensor cores take the second factor column by column; the other way a slow kernel runs
    return lambda: torch._int_mm(left, right)


def _int8_on_cpu(left: Any, right: Any, threads: int | None) -> Callable[[], Any]:
    """Return ONNX Runtime's product of unsigned by signed codes, as engines multiply them.

    PyTorch's has no fast kernel without VNNI: 2 giga-operations a second on an EPYC 7003, ONNX Runtime
    239 and, in FP32, PyTorch 124.
    """
    import onnxruntime
    from onnx import TensorProto, helper

    shape = tuple(left.shape)
    kinds = {"left": TensorProto.UINT8, "right": TensorProto.INT8, "product": TensorProto.INT32}
    *factors, product = (helper.make_tensor_value_info(name, kind, shape) for name, kind in kinds.items())
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["left", "right"], ["product"])], "product", factors, [product]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    given = {"left": left.numpy().view("uint8"), "right": right.numpy()}
    return lambda: session.run(None, given)


def _torch_type(torch: Any, precision: str, device: str) -> Any:
    if precision not in ("fp16", "bf16") or (device == "cpu" and not has_half(precision)):
        return torch.float32
    return torch.float16 if precision == "fp16" and device == "cuda" else torch.bfloat16


def _bandwidth(torch: Any, device: str) -> float:
    source = torch.ones(COPY_BYTES[device], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * source.numel() / _best_seconds(torch, device, lambda: target.copy_(source)) / 1e9


def _best_seconds(torch: Any, device: str, work: Callable[[], Any]) -> float:
    """Return the shortest of many times: a peak is what the machine can do, not what it did on average.

    Beside other processes few of them are undisturbed: a product of 1 ms takes 80 if a thread has to wait.
    """
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    work()
    wait()
    times: list[float] = []
    while len(times) < LEAST_REPEATS or sum(times) < LEAST_SECONDS:
        start = time.perf_counter()
        work()
        wait()
        times.append(time.perf_counter() - start)
    return min(times)
