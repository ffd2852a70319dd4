"""TensorRT's Python API on OpenVINO: the CPU engine (under construction)."""
