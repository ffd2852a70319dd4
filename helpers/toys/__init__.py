"""What one notebook uses."""
