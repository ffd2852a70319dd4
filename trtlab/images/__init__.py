"""From image files to a network's input."""
