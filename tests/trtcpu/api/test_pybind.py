"""How the classes behave beside their methods: TensorRT's old `with` statements."""

import pytest

from helpers.toys.networks import tiny_onnx
from trtcpu import tensorrt as trt


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


def test_a_base_that_was_not_initialised_is_named_whatever_the_class_answers() -> None:
    class Anything(trt.ILogger):
        def __init__(self) -> None:
            pass

        def __getattr__(self, name: str) -> str:
            return name

    with pytest.raises(TypeError, match=r"tensorrt.ILogger.__init__\(\) must be called .* in Anything.__init__"):
        Anything()


def test_own_classes_are_open_and_the_apis_are_not() -> None:
    own = type("Own", (trt.ILogger,), {})()
    own.seen = []
    with pytest.raises(AttributeError, match="seen"):
        trt.Logger().seen = []
