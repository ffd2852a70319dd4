"""A class of forty, generated from a seed and graded every way there is: the same points as predicted, and how fast."""
