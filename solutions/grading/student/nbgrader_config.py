"""What nbgrader's Validate needs to know of this lab."""

c = get_config()  # noqa: F821 - given by the loader of configuration files

# Seconds that one cell may take; nbgrader's own limit of 30 is too short for building engines.
c.Execute.timeout = 900
c.Execute.interrupt_on_timeout = True
c.Execute.iopub_timeout = 30
