"""What an engine is given and gives: tensors, shapes, networks, inference."""
