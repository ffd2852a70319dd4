"""From a plan to results: the runtime loads it, a context runs it, the inspector and profilers look in.

Nothing here imports `builder` or onnx: a plan holds all that its engine needs.
"""
