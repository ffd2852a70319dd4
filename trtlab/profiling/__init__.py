"""Where an engine's time goes."""
