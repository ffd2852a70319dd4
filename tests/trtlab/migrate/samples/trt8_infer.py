"""TensorRT 8: dynamic shapes by the index of a binding."""

import numpy as np
import pycuda.driver as cuda
import tensorrt as trt


class Inference:
    """Runs an engine with one input and one output."""

    def __init__(self, engine: trt.ICudaEngine):
        self.engine = engine
        self.context = engine.create_execution_context()
        self.stream = cuda.Stream()

    def largest(self):
        """Return the largest shape of the first binding."""
        return tuple(self.engine.get_profile_shape(0, 0)[2])  #: +ICudaEngine.get_profile_shape

    def __call__(self, images):
        """Return the output for `images`."""
        if not self.context.set_binding_shape(0, images.shape):  #: +IExecutionContext.set_binding_shape
            raise ValueError(f"{images.shape} is outside of the profile")
        out = np.empty(tuple(self.context.get_binding_shape(1)), np.float32)  #: +IExecutionContext.get_binding_shape
        memory = [cuda.mem_alloc(array.nbytes) for array in (images, out)]
        cuda.memcpy_htod(memory[0], np.ascontiguousarray(images))
        done = self.context.execute_async_v2([int(each) for each in memory], self.stream.handle)  #: +IExecutionContext.execute_async_v2
        self.stream.synchronize()
        if not done:
            raise RuntimeError("the engine did not run")
        cuda.memcpy_dtoh(out, memory[1])
        return out


def describe(engine: trt.ICudaEngine):
    """Return one line for each binding."""
    lines = []
    for index in range(engine.num_bindings):  #: +ICudaEngine.num_bindings
        kind = "input" if engine.binding_is_input(index) else "output"  #: +ICudaEngine.binding_is_input
        shape = tuple(engine.get_binding_shape(index))  #: +ICudaEngine.get_binding_shape
        lines.append(f"{kind} {engine.get_binding_name(index)} {shape}")  #: +ICudaEngine.get_binding_name
    return lines
