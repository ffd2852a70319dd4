"""Tests that need real TensorRT on an NVIDIA GPU; `make gpu-test` runs them."""
