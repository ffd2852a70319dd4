"""What others wrote, on the CPU engine: onnx's operator tests, Polygraphy, models from the package index."""
