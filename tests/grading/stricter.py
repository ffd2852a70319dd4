"""The judge of tiny's course after a check was changed: a cube is asked for at 3 and not at 2."""

from tests.grading import tiny

tiny._CLAIMS["simplify_model"] = [("cube.two", "cube", 3, 27, 2.0)]

if __name__ == "__main__":
    tiny.judge(tiny._prepare, tiny._decide)
