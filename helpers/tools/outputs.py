"""What a network's outputs should be, and how far they are from that."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import onnxruntime


def onnx_session(model: bytes | Path) -> onnxruntime.InferenceSession:
    """Return ONNX Runtime's session on the CPU, without its log.

    Its threads do not spin while they wait, which would slow whatever runs beside it.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


_known_session = lru_cache(maxsize=4)(onnx_session)


def onnx_outputs(model: bytes, images: np.ndarray) -> np.ndarray:
    """Return ONNX Runtime's outputs [N, classes] for images [N, C, H, W] of the type that the model takes."""
    session = _known_session(model)
    return session.run(None, {session.get_inputs()[0].name: images})[0]


def relative_error(outputs: np.ndarray, expected: np.ndarray) -> float:
    """Return the L2 norm of the difference over the norm of what is expected, in float64; NaN if an output is none."""
    right = np.asarray(expected, np.float64)
    return float(np.linalg.norm(outputs - right) / max(np.linalg.norm(right), 1e-12))


def shown_error(error: float) -> str:
    """Return a relative error in percent as a message shows it; how far beyond ten times off says nothing more."""
    return f"{error:.1%}" if error < 10 else "more than 1,000 %" if error >= 10 else "not a number"
