"""The exception of a point that is not met; the one thing that probes, points, visible checks and claims all raise."""

SLIPS = frozenset({"AttributeError", "NameError", "TypeError", "UnboundLocalError"})
"""Types of exceptions that come from a slip; where a task asks for an exception, they were not raised on purpose."""


class Missed(Exception):
    """Something expected that was not found, with what to try.

    Args:
        expected: what a right solution does or gives, with the figures.
        found: what this one did or gave.
        try_this: the next thing to do, without the answer.
    """

    def __init__(self, expected: str, found: str, try_this: str) -> None:
        super().__init__(f"expected {expected}; found {found}; try: {try_this}")
        self.expected, self.found, self.try_this = expected, found, try_this
