"""The commands of `trtlab`, one module a theme; each has `register(app)`."""
