"""Which arithmetic a precision that was asked for really gets on this machine: part of every label."""

from helpers.backend import ENGINE, cuda, trt

__all__ = ["arithmetic"]

_AMPERE = (8, 0)
"""The first compute capability whose tensor cores round FP32 to TF32; TensorRT and PyTorch let them by default."""


def arithmetic(precision: str) -> str:
    """Return `precision` as labels say it: "FP16" where that runs, else "FP16 asked, BF16 ran".

    On a GPU FP32 is TF32 unless its flag is cleared. What a single engine runs in, the inspector says: helpers.layers.
    """
    asked = precision.upper()
    ran = _on_gpu(asked) if ENGINE == "tensorrt" else _on_cpu(asked)
    if ran == asked:
        return asked
    return f"{asked} asked, {ran} ran" + (": no BF16 here" if (asked, ran) == ("FP16", "FP32") else "")


def _on_gpu(asked: str) -> str:
    tensor_cores = asked == "FP32" and cuda.Context.get_device().compute_capability() >= _AMPERE
    return "TF32" if tensor_cores else asked


def _on_cpu(asked: str) -> str:
    if asked in ("FP16", "BF16"):
        return trt.half_precision(asked)
    return "FP32" if asked == "TF32" else asked
