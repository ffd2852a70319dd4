"""TensorRT's name for the CPU engine; what looks for CUDA's runtime library by ctypes, as Polygraphy does, finds it."""

import ctypes
import sys

from trtcpu import tensorrt
from trtcpu.cudart import Library

_load = ctypes.CDLL
ctypes.CDLL = lambda name=None, *options, **more: (
    Library() if "libcudart" in str(name) else _load(name, *options, **more)
)
sys.modules[__name__] = tensorrt
