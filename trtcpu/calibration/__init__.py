"""INT8 calibration: from a calibrator's batches, or its cache, to the scale of every tensor.

Read in this order: `calibrators` (what a user derives from), `session` (the protocol, and the way in: `calibrate`),
`tensors` (the plan: which tensors, in which order), `probe` and `batches` (the network that gives them, and running
it), `histogram` with `_kernels` (what is kept of each tensor) and `scales` (what that gives).
"""
