"""TensorRT's Python API on OpenVINO: the engine of machines without an NVIDIA GPU.

    from trtcpu import cuda  # pycuda.driver's names
    from trtcpu import tensorrt as trt

Code written for TensorRT 10.x, or with TRT_LAB_API=11 for 11.x, runs unchanged: parse ONNX, build FP32/FP16/BF16/INT8
engines with optimization profiles and calibrators, serialize, deserialize, execute on streams, inspect and profile. It
is a real optimising engine, with fused layers and real half-precision and INT8 kernels, on the processor; its numbers
are a CPU's and are labelled so.

What it does not do raises `UnsupportedError` by name: networks built layer by layer (`add_*`), plugins, refitting, FP8
and INT4, DLA. Without effect, but kept and readable: workspace and other memory pools, tactic sources, averaging,
optimisation level. docs/cpu-engine.md lists every known difference.

`python -m trtcpu SCRIPT` runs a script that imports tensorrt, pycuda or cuda-python on it.

Read it from the ground up; a room imports only rooms that stand above it in this list:

    errors.py      the errors that a user can mend, as one tree; processor.py, the cores there are
    calibration_cache.py, api_changes.py   TensorRT's cache file; names that TensorRT no longer has
    api/           TensorRT's vocabulary: enumerations, shapes, loggers, the manifest of all its names
    _openvino.py   the door to OpenVINO: compile, export, import, infer, list what runs; _repairs.py, what it gets wrong
    _export.py     reads the bytes of an exported model: weights by type, the network without names
    plan.py        the serialized engine: what a build writes and a runtime reads
    device/        memory by checked address, streams and events
    cuda.py, cudart.py   pycuda.driver's names for them, and cuda-python's
    runtime/       loads a plan, runs it in one or several contexts, inspects and profiles it
    calibration/   from batches of images to the scale of every tensor
    builder/       parses, configures, quantises and compiles a model into a plan
    tensorrt.py    all of it under TensorRT's names
    stand_ins/     what `import tensorrt`, `pycuda` and `cuda` find under __main__.py

Importing the package loads none of this, so a process that only needs the errors starts fast.
"""
