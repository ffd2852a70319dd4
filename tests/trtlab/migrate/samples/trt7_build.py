"""TensorRT 7: options on the builder, objects as context managers, an engine straight from the network."""

import os

import tensorrt as trt

LOGGER = trt.Logger(trt.Logger.WARNING)
EXPLICIT_BATCH = 1 << (int)(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)  #: +NetworkDefinitionCreationFlag.EXPLICIT_BATCH


def engine_of(onnx_path, plan_path, half=False, calibrator=None, refittable=False):
    """Return the engine in `plan_path`; build it from `onnx_path` and keep it where it is not there."""
    if os.path.exists(plan_path):
        with open(plan_path, "rb") as file, trt.Runtime(LOGGER) as runtime:
            return runtime.deserialize_cuda_engine(file.read())
    with trt.Builder(LOGGER) as builder, builder.create_network(EXPLICIT_BATCH) as network:
        parser = trt.OnnxParser(network, LOGGER)
        # a quarter of a gigabyte is enough
        builder.max_workspace_size = 1 << 28  #: +Builder.max_workspace_size
        builder.max_batch_size = 1  #: +Builder.max_batch_size
        builder.fp16_mode = half  #: 10+Builder.fp16_mode
        builder.strict_type_constraints = False  #: +Builder.strict_type_constraints
        builder.refittable = refittable  #: +Builder.refittable
        if calibrator is not None:
            builder.int8_mode = True  #: 10+Builder.int8_mode
            builder.int8_calibrator = calibrator  #: 10+Builder.int8_calibrator
        with open(onnx_path, "rb") as file:
            if not parser.parse(file.read()):
                raise ValueError([parser.get_error(index).desc() for index in range(parser.num_errors)])
        engine = builder.build_cuda_engine(network)  #: +Builder.build_cuda_engine
        with open(plan_path, "wb") as file:
            file.write(engine.serialize())
        return engine
