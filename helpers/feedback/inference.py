"""The visible check of step 5: an inference class on a small network whose outputs ONNX Runtime computes beside it."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from helpers.backend import trt
from helpers.feedback.checklist import Checklist, visible_check
from helpers.missed import Missed
from helpers.probes.capture import captured
from helpers.probes.images import varied_images
from helpers.probes.memory_use import device_memory_bytes, growth_over
from helpers.probes.networks import EDGE, tiny_onnx

__all__ = ["check_inference"]

_SEED = 2027
_MOST = 32
_TOLERANCE = 5e-3
_HELD_BYTES = 8 << 20
_CYCLES, _WARM_UP, _LEFT_BYTES = 20, 5, 24 << 20


@visible_check("05_inference", "TensorRTInference")
def check_inference(check: Checklist, inference_class: Callable[[str], Any]) -> None:
    """Check that the class gives right outputs at any batch, takes any layout, refuses bad shapes, and cleans up."""
    onnx = tiny_onnx(_SEED)
    expect = _Expected(onnx)
    with _engine_file(onnx) as path:
        model = check.call("it loads an engine of a small network", inference_class, path)
        check.require("infer gives the network's outputs", lambda: _infers(model, expect))
        check.verify("batches 7, 32 and 1 in a row are right too", lambda: _batches(model, expect))
        check.verify("arrays that are not contiguous, or float64, give the same", lambda: _layouts(model, expect))
        check.verify("a result stays as it was returned", lambda: _copies(model))
        check.verify("a wrong shape gives an exception that names it", lambda: _refuses(model, (2, 3, 200, 200), "200"))
        check.verify("so does a batch of 33", lambda: _refuses(model, (_MOST + 1, 3, EDGE, EDGE), str(_MOST + 1)))
        check.verify(
            "it works as model(images) and in a with block", lambda: _with_block(inference_class, path, expect)
        )
        check.verify("close() frees the device memory, and infer raises then", lambda: _closes(inference_class, path))
        check.verify(f"{_CYCLES} instances leave no memory behind", lambda: _leaves_nothing(inference_class, path))
        check.verify("the first instance closes", lambda: _tried(model.close) or "")


class _Expected:
    """What ONNX Runtime makes of the same images."""

    def __init__(self, onnx: bytes) -> None:
        self._session = onnxruntime.InferenceSession(onnx, providers=["CPUExecutionProvider"])

    def compare(self, infer: Callable[[np.ndarray], Any], images: np.ndarray, given: np.ndarray | None = None) -> str:
        """Return the relative error of `infer`'s outputs; raise Missed where they are others than the network's."""
        expected = self._session.run(None, {"input": images})[0]
        found = _tried(lambda: infer(images if given is None else given))
        if not isinstance(found, np.ndarray) or found.shape != expected.shape:
            kind = f"shape {found.shape}" if isinstance(found, np.ndarray) else f"a {type(found).__name__}"
            raise Missed(f"a NumPy array of shape {expected.shape}", kind, "return the first N rows, N as they came in")
        expected = expected.astype(np.float64)  # what an unwritten buffer holds may be too large to be squared
        errors = np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected, axis=1)
        if not (errors <= _TOLERANCE).all():
            wrong = int(np.sum(~(errors <= _TOLERANCE)))
            raise Missed(
                f"ONNX Runtime's outputs for a batch of {len(images)}",
                f"{wrong} of {len(images)} rows that are others",
                "is the shape set for every batch, the right part of the buffer read, and only after synchronising?",
            )
        return f"batch {len(images)}, relative error {errors.max():.0e}"


@contextmanager
def _engine_file(onnx: bytes) -> Iterator[str]:
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    trt.OnnxParser(network, logger).parse(onnx)
    profile = builder.create_optimization_profile()
    profile.set_shape("input", *((batch, 3, EDGE, EDGE) for batch in (1, 8, _MOST)))
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    config.add_optimization_profile(profile)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.engine"
        path.write_bytes(builder.build_serialized_network(network, config))
        yield str(path)


def _tried(action: Callable[[], Any]) -> Any:
    """Return what `action` gives; what it raises, with what it printed, becomes Missed."""
    try:
        with captured():
            return action()
    except NotImplementedError:
        raise Missed("this method to be written", "the TODO is still there", "fill it in, then run again") from None
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
        raise Missed("no exception", found, "call it in a cell of its own to see the traceback") from error


def _infers(model: Any, expect: _Expected) -> str:
    return expect.compare(model.infer, varied_images(1, 8))


def _batches(model: Any, expect: _Expected) -> str:
    return "; ".join(expect.compare(model.infer, varied_images(10 + number, number)) for number in (7, _MOST, 1))


def _layouts(model: Any, expect: _Expected) -> str:
    images = varied_images(2, 5)
    channels_last = np.ascontiguousarray(images.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    for name, given in (("a channels-last view", channels_last), ("float64", images.astype(np.float64))):
        try:
            expect.compare(model.infer, images, given)
        except Missed as missed:
            raise Missed(f"{name}: {missed.expected}", missed.found, "make it contiguous float32 first") from missed
    return "channels-last view, float64"


def _copies(model: Any) -> str:
    first = _tried(lambda: model.infer(varied_images(3, 4)))
    kept = np.array(first)
    _tried(lambda: model.infer(varied_images(4, 4)))
    if not np.array_equal(first, kept):
        raise Missed("an array of its own", "the next call changed it", "return a copy of the buffer")
    return "unchanged after the next call"


def _refuses(model: Any, shape: tuple[int, ...], figure: str) -> str:
    try:
        with captured():
            model.infer(np.zeros(shape, np.float32))
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        if figure not in str(error):
            try_this = "raise ValueError with the shape that came and the one that is allowed"
            raise Missed(f"an exception that says {figure}", said[:200], try_this) from error
        return said[:100]
    raise Missed("an exception", "none", "compare shapes before you copy; set_input_shape returns False out of range")


def _with_block(inference_class: Callable[[str], Any], path: str, expect: _Expected) -> str:
    instance = _tried(lambda: inference_class(path))
    with _tried(lambda: instance) as model:
        said = expect.compare(model, varied_images(5, 3))
    return said


def _closes(inference_class: Callable[[str], Any], path: str) -> str:
    images, before = varied_images(6, 1), device_memory_bytes()
    model = _tried(lambda: inference_class(path))
    _tried(lambda: model.infer(images))
    _tried(model.close)
    held = device_memory_bytes() - before
    if held > _HELD_BYTES:
        found = f"{held / 1e6:.1f} MB still allocated"
        raise Missed("the device memory to be free", found, "call free() on the device buffers in close()")
    try:
        with captured():
            model.infer(images)
    except Exception as error:
        return f"then infer raises {type(error).__name__}"
    raise Missed("infer to raise after close()", "no exception", "remember that it is closed")


def _leaves_nothing(inference_class: Callable[[str], Any], path: str) -> str:
    images = varied_images(7, 1)

    def cycle(index: int) -> None:
        with inference_class(path) as model:
            model.infer(images)

    growth = _tried(lambda: growth_over(cycle, _CYCLES, _WARM_UP))
    left = max(growth.device_bytes, growth.process_bytes)
    if left > _LEFT_BYTES:
        found = f"{left / 1e6:.0f} MB more after {growth.cycles} of them"
        raise Missed("memory where it was", found, "free in __exit__ what the constructor allocates")
    return f"{left / 1e6:.1f} MB of growth in {growth.cycles} of them"
