"""From PyTorch to ONNX."""
