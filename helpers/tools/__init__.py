"""Files, signals, cells of notebooks, and outputs compared."""
