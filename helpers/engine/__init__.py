"""The engine that runs here, and what can be asked about it."""
