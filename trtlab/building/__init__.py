"""From ONNX to an engine: build and calibration."""
