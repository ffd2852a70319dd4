"""TensorRT 10: tensors by name, precision by flags, INT8 by a calibrator."""

import numpy as np
import pycuda.driver as cuda
import tensorrt as trt


class Calibrator(trt.IInt8EntropyCalibrator2):  #: IInt8EntropyCalibrator2
    """Hands out batches, keeps what was found."""

    def __init__(self, batches):
        super().__init__()
        self.batches = iter(batches)
        self.memory = None

    def get_batch_size(self):
        """Return the images in a batch."""
        return 1

    def get_batch(self, names):
        """Return the address of the next batch, None after the last."""
        batch = next(self.batches, None)
        if batch is None:
            return None
        self.memory = cuda.to_device(np.ascontiguousarray(batch))
        return [int(self.memory)]

    def read_calibration_cache(self):
        """Return None: there is no cache."""

    def write_calibration_cache(self, cache):
        """Keep nothing."""


def build(onnx_path, batches):
    """Return the plan of an INT8 engine."""
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(
        1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH)  #: +NetworkDefinitionCreationFlag.EXPLICIT_BATCH
    )
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(str(onnx_path)):
        raise ValueError(parser.get_error(0).desc())
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
    for flag in (trt.BuilderFlag.INT8, trt.BuilderFlag.FP16):  #: BuilderFlag.INT8, BuilderFlag.FP16
        config.set_flag(flag)
    config.int8_calibrator = Calibrator(batches)  #: IBuilderConfig.int8_calibrator
    if hasattr(trt.BuilderFlag, "OBEY_PRECISION_CONSTRAINTS"):
        config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)  #: BuilderFlag.OBEY_PRECISION_CONSTRAINTS
    return builder.build_serialized_network(network, config)


def memory_of(engine: trt.ICudaEngine):
    """Return the device memory of a context in bytes, and a context that has none yet."""
    context = engine.create_execution_context_without_device_memory()  #: +ICudaEngine.create_execution_context_without_device_memory
    return engine.device_memory_size, context  #: +ICudaEngine.device_memory_size
