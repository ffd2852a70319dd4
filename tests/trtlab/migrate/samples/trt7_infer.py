"""TensorRT 7: buffers in a list of bindings, whose order the engine knows."""

import numpy as np
import pycuda.driver as cuda
import tensorrt as trt

LOGGER = trt.Logger(trt.Logger.ERROR)


class Buffer:
    """Memory of one tensor on the host and on the device."""

    def __init__(self, shape, dtype):
        self.host = np.zeros(shape, dtype)
        self.device = cuda.mem_alloc(self.host.nbytes)


def load(plan):
    """Return the engine of serialized bytes."""
    return trt.Runtime(LOGGER).deserialize_cuda_engine(plan)


def buffers_of(engine):
    """Return the buffers of inputs and outputs, and the addresses of all in the order of the bindings."""
    inputs, outputs, bindings = [], [], []
    for binding in engine:
        shape = engine.get_binding_shape(binding)  #: +ICudaEngine.get_binding_shape
        buffer = Buffer(tuple(shape), trt.nptype(engine.get_binding_dtype(binding)))  #: +ICudaEngine.get_binding_dtype
        bindings.append(int(buffer.device))
        if engine.binding_is_input(binding):  #: +ICudaEngine.binding_is_input
            inputs.append(buffer)
        else:
            outputs.append(buffer)
    return inputs, outputs, bindings


def run(context, bindings, inputs, outputs, stream):
    """Copy, run and copy back in the order of a stream."""
    for buffer in inputs:
        cuda.memcpy_htod_async(buffer.device, buffer.host, stream)
    context.execute_async_v2(bindings=bindings, stream_handle=stream.handle)  #: +IExecutionContext.execute_async_v2
    for buffer in outputs:
        cuda.memcpy_dtoh_async(buffer.host, buffer.device, stream)
    stream.synchronize()
    return [buffer.host for buffer in outputs]


def infer(plan, images):
    """Return the outputs of the engine in `plan` for `images`."""
    engine = load(plan)
    inputs, outputs, bindings = buffers_of(engine)
    inputs[0].host[...] = images
    context = engine.create_execution_context()
    found = run(context, bindings, inputs, outputs, cuda.Stream())
    names = [engine.get_binding_name(number) for number in range(engine.num_bindings)]  #: +ICudaEngine.get_binding_name, +ICudaEngine.num_bindings
    return dict(zip([name for name in names if not engine.binding_is_input(name)], found, strict=True))  #: +ICudaEngine.binding_is_input
