"""One behavioural suite for two engines: TensorRT on a GPU and the CPU engine must answer these cases alike.

Cases reach the engine only through `helpers.engine.backend`. Where TensorRT's versions differ, a case states the set of
allowed behaviours with the reason. Run `pytest tests/conformance --record FILE` to keep every case's outcome.
"""
