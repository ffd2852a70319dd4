"""The exception of a missed point. Points, visible checks and hidden checks all raise it."""

SLIPS = frozenset({"AttributeError", "NameError", "TypeError", "UnboundLocalError"})
"""Types of exceptions that come from a slip. Where a task asks for an exception, these do not count."""


class Missed(Exception):
    """What was expected, what was found, and what to try.

    Args:
        expected: what a right solution does or returns, with the figures.
        found: what this one did or returned.
        try_this: the next thing to do, without the answer.
    """

    def __init__(self, expected: str, found: str, try_this: str) -> None:
        super().__init__(f"expected {expected}; found {found}; try: {try_this}")
        self.expected, self.found, self.try_this = expected, found, try_this
