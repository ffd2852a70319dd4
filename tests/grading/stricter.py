"""The judge of tiny's course after a check was changed: a cube is asked for at 3 and not at 2."""

from tests.grading import tiny
from tests.grading.tiny import main

__all__ = ["main"]

tiny._CLAIMS["simplify_model"] = [("cube.two", "cube", 3, 27, 2.0)]
