"""TensorRT 8 as exporters of detectors use it: imports where they are needed, bindings as records in a dictionary."""

from collections import OrderedDict, namedtuple
from pathlib import Path

import numpy as np
import pycuda.driver as cuda

Binding = namedtuple("Binding", ("name", "dtype", "shape", "data", "ptr"))


def export_engine(file, workspace=1, half=False, verbose=False):
    """Write an engine beside an ONNX file, and return its path."""
    import tensorrt as trt

    logger = trt.Logger(trt.Logger.INFO if verbose else trt.Logger.ERROR)
    if verbose:
        logger.min_severity = trt.Logger.Severity.VERBOSE
    builder = trt.Builder(logger)
    config = builder.create_builder_config()
    config.max_workspace_size = workspace * 1 << 30  #: +IBuilderConfig.max_workspace_size
    flag = 1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)  #: +NetworkDefinitionCreationFlag.EXPLICIT_BATCH
    network = builder.create_network(flag)
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(str(file)):
        raise RuntimeError(f"{file} cannot be parsed")
    inputs = [network.get_input(i) for i in range(network.num_inputs)]
    outputs = [network.get_output(i) for i in range(network.num_outputs)]
    for tensor in inputs + outputs:
        print(f"{tensor.name} {tensor.shape} {tensor.dtype}")
    if builder.platform_has_fast_fp16 and half:  #: Builder.platform_has_fast_fp16
        config.set_flag(trt.BuilderFlag.FP16)  #: BuilderFlag.FP16
    target = Path(file).with_suffix(".engine")
    with builder.build_engine(network, config) as engine, open(target, "wb") as out:  #: +Builder.build_engine
        out.write(engine.serialize())
    return target


class Backend:
    """An engine that is called with an array."""

    def __init__(self, file):
        import tensorrt as trt

        with open(file, "rb") as source, trt.Runtime(trt.Logger(trt.Logger.ERROR)) as runtime:
            model = runtime.deserialize_cuda_engine(source.read())
        context = model.create_execution_context()
        bindings = OrderedDict()
        self.half = False
        for i in range(model.num_bindings):  #: +ICudaEngine.num_bindings
            name = model.get_binding_name(i)  #: +ICudaEngine.get_binding_name
            dtype = trt.nptype(model.get_binding_dtype(i))  #: +ICudaEngine.get_binding_dtype
            if model.binding_is_input(i) and dtype == np.float16:  #: +ICudaEngine.binding_is_input
                self.half = True
            shape = tuple(context.get_binding_shape(i))  #: +IExecutionContext.get_binding_shape
            data = np.empty(shape, dtype)
            bindings[name] = Binding(name, dtype, shape, data, cuda.mem_alloc(data.nbytes))
        self.first = model.get_binding_index("input")  #: ICudaEngine.get_binding_index
        self.addresses = OrderedDict((n, int(d.ptr)) for n, d in bindings.items())
        self.batch = bindings["input"].shape[0]
        self.model, self.context, self.bindings = model, context, bindings

    def __call__(self, images):
        """Return the output for `images`."""
        assert images.shape == self.bindings["input"].shape, (images.shape, self.model.max_batch_size)  #: ICudaEngine.max_batch_size
        cuda.memcpy_htod(self.bindings["input"].ptr, images)
        self.context.execute_v2(list(self.addresses.values()))
        out = self.bindings["output"]
        cuda.memcpy_dtoh(out.data, out.ptr)
        return out.data
