"""Names of TensorRT 7 and 8 that TensorRT 10 no longer has, and what took their place (NVIDIA's migration guide)."""

import re

__all__ = ["replacement"]

_BY_NAME = "tensors have names now"
_CALL = "context.set_tensor_address(name, address) for each tensor, then context.execute_async_v3(stream)"
_INSTEAD = {
    "max_workspace_size": "config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, size_in_bytes)",
    "max_batch_size": "an optimization profile: builder.create_optimization_profile() and profile.set_shape",
    "build_engine": "builder.build_serialized_network(network, config), which returns the plan's bytes",
    "build_cuda_engine": "builder.build_serialized_network(network, config), which returns the plan's bytes",
    "fp16_mode": "config.set_flag(trt.BuilderFlag.FP16)",
    "int8_mode": "config.set_flag(trt.BuilderFlag.INT8)",
    "strict_type_constraints": "config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)",
    "STRICT_TYPES": "trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS",
    "num_bindings": f"engine.num_io_tensors ({_BY_NAME})",
    "get_binding_name": "engine.get_tensor_name(index)",
    "get_binding_index": f"the name itself ({_BY_NAME}): context.set_tensor_address(name, address)",
    "get_binding_shape": "engine.get_tensor_shape(name), or context.get_tensor_shape(name) for the shape of this call",
    "get_binding_dtype": "engine.get_tensor_dtype(name)",
    "binding_is_input": "engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT",
    "set_binding_shape": "context.set_input_shape(name, shape)",
    "get_profile_shape": "engine.get_tensor_profile_shape(name, profile_index)",
    "execute": _CALL,
    "execute_async": _CALL,
    "execute_async_v2": _CALL,
}
_MISSING = re.compile(r"has no attribute '(\w+)'")


def replacement(error: str) -> str | None:
    """Return what to use in place of the attribute that an AttributeError's text says is missing, None if unknown."""
    found = _MISSING.search(error)
    instead = _INSTEAD.get(found[1]) if found else None
    return instead and f"{found[1]} is of TensorRT 7 and 8; use {instead}"
