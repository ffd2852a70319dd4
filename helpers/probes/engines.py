"""The one engine that helpers build: in FP32, for the checks of steps 5, 6 and 10, whose tasks begin with an engine."""

from functools import lru_cache

from helpers.backend import trt

__all__ = ["probe_engine"]


@lru_cache(maxsize=8)
def probe_engine(onnx: bytes, *ranges: tuple[int, int, int]) -> bytes:
    """Return a serialized FP32 engine of an ONNX model with one input.

    Args:
        onnx: the model. It must be one that the parser takes.
        ranges: min, opt and max of each profile's batch; none where the model's batch is fixed.

    Optimization level 0 takes the first kernel that works: a small network is built in seconds on a GPU too.
    """
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(onnx):
        raise ValueError(f"no model for a probe: {parser.get_error(0)}")
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    config.builder_optimization_level = 0
    for batches in ranges:
        tensor = network.get_input(0)
        profile = builder.create_optimization_profile()
        profile.set_shape(tensor.name, *((batch, *tuple(tensor.shape)[1:]) for batch in batches))
        config.add_optimization_profile(profile)
    return bytes(builder.build_serialized_network(network, config))
