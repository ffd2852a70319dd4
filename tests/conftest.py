"""What holds in every test."""

from hypothesis import settings

# The same cases each time, whatever else the machine does; tests/fuzz tries other ones where it is asked for many.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")
