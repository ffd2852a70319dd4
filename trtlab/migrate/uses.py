"""What is gone beside the names of trtcpu/api_changes.json: uses of names that stayed, and advice; and common names.

The uses come from comparing signatures and setters in NVIDIA's bindings of 8.6, 10.16 and 11.4, as the names do.
"""

from trtcpu.api_changes import Change

_BY_NAME = "tensors have names now, no binding indices"
_TYPED = "networks are strongly typed: the ONNX types decide, nothing is left to choose"

_USES = (
    Change("len(ICudaEngine)", "10.0", "engine.num_io_tensors", _BY_NAME),
    Change("ICudaEngine[name]", "10.0", "the name itself: context.set_tensor_address(name, address)", _BY_NAME),
    Change(
        "IExecutionContext.active_optimization_profile = …",
        "10.0",
        "context.set_optimization_profile_async(index, stream)",
        "a profile is switched on a stream, the attribute can only be read",
    ),
    Change(
        "Builder.create_network(number)",
        "11.0",
        "create_network(), or flags by their names",
        "the flags' numbers moved: bit 0 was EXPLICIT_BATCH and is STRONGLY_TYPED",
    ),
    Change("ITensor.dtype = …", "11.0", "Cast nodes in the ONNX model, or network.add_cast", _TYPED),
    Change("INetworkDefinition.add_quantize(input, scale)", "11.0", "add_quantize(input, scale, trt.int8)", _TYPED),
    Change(
        "INetworkDefinition.add_dequantize(input, scale)", "11.0", "add_dequantize(input, scale, trt.float32)", _TYPED
    ),
    Change("INetworkDefinition.add_fill(shape, op)", "11.0", "add_fill(shape, op, trt.float32)", _TYPED),
    Change(
        "destroy()",
        "5.0",
        "nothing, or del",
        "an object is freed when the last reference to it goes; it has no such method",
    ),
)
USES: dict[str, Change] = {change.name: change for change in _USES}
"""Uses that are gone, by what findings.py calls them."""

ADVICE: dict[str, tuple[str, str]] = {
    "pycuda.autoinit": (
        "import pycuda.autoprimaryctx",
        "it makes a CUDA context of its own; the primary one is PyTorch's and the CUDA runtime's too",
    ),
}
"""Imports that still work and should go, with replacement and reason."""

COMMON: frozenset[str] = frozenset(
    "compute_precision dilation execute free kernel_size padding post_padding pre_padding precision "
    "stride supports_model tensor_format transpose0 transpose1 window_size".split()
)
"""Members whose names other libraries' and students' objects have too: reported only where the owner is known."""

HINTED: frozenset[str] = frozenset(
    "add_convolution add_deconvolution add_padding add_pooling build_engine debug_sync device_memory_size "
    "dynamic_range execute_async fp16_mode get_dynamic_range get_location get_shape get_strides int8_mode "
    "max_batch_size max_workspace_size num_bindings refittable set_dynamic_range".split()
)
"""Members that are reported as likely only in a source that names TensorRT, of a variable that is called as such
objects are: `engine.num_bindings`."""
