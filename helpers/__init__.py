"""What students may import: support for the lab, never an answer to a task."""
