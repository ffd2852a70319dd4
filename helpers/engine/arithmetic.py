"""Which arithmetic a precision that was asked for really gets on this machine: part of every label."""

from helpers.engine.backend import ENGINE, cuda, trt

_AMPERE = (8, 0)
"""The first compute capability whose tensor cores round FP32 to TF32; TensorRT and PyTorch let them by default."""


def arithmetic(precision: str) -> str:
    """Return `precision` as labels say it: "FP16", "FP16 asked, BF16 ran", "stored FP16, ran FP32".

    On a GPU FP32 is TF32 unless its flag is cleared. What a single engine runs in, the inspector says: layers.py.
    """
    asked = precision.upper()
    ran = _on_gpu(asked) if ENGINE == "tensorrt" else _on_cpu(asked)
    if ran == asked:
        return asked
    if (asked, ran) == ("FP16", "FP32"):
        return "stored FP16, ran FP32"
    return f"{asked} asked, {ran} ran"


def has_half(precision: str) -> bool:
    """Say whether layers asked for in "fp16" or "bf16" can compute in a half precision on this machine."""
    return ENGINE == "tensorrt" or trt.half_precision(precision.upper()) != "FP32"


def _on_gpu(asked: str) -> str:
    tensor_cores = asked == "FP32" and cuda.Context.get_device().compute_capability() >= _AMPERE
    return "TF32" if tensor_cores else asked


def _on_cpu(asked: str) -> str:
    if asked in ("FP16", "BF16"):
        return trt.half_precision(asked)
    return "FP32" if asked == "TF32" else asked
