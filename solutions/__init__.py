"""The reference solution: notebooks, the pipeline behind `trtlab`, and the hidden checks."""
