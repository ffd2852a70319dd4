"""How the classes behave beside their methods: TensorRT's old `with` statements."""

import pytest

from helpers import cpu_engine as trt
from helpers.probes.networks import tiny_onnx


def test_the_with_statements_of_older_tutorials_work_and_warn() -> None:
    with pytest.warns(DeprecationWarning, match="Context managers"):
        with trt.Logger() as logger, trt.Builder(logger) as builder:
            with builder.create_network(1) as network, trt.OnnxParser(network, logger) as parser:
                assert parser.parse(tiny_onnx(0, batch=1))
                with builder.create_builder_config() as config:
                    plan = builder.build_serialized_network(network, config)
        with plan, trt.Runtime(logger) as runtime, runtime.deserialize_cuda_engine(plan) as engine:
            with engine.create_execution_context() as context:
                assert context.engine is engine
