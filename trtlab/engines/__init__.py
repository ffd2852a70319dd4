"""An engine's inputs and outputs: tensors, shapes, networks, inference."""
