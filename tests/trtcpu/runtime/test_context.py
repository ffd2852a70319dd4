"""Contexts: a plan whose header tells another output than its model makes, a stream that is none."""

import numpy as np
import pytest
from onnx import helper

from helpers.engine.given import probe_engine
from helpers.toys.networks import tiny_onnx
from tests.conformance.support import Buffers, build, load
from tests.trtcpu.graphs import FLOAT, INT64, model
from trtcpu.device.memory import LogicError
from trtcpu.errors import EngineError
from trtcpu.plan import seal, unseal

MAGIC = b"TRTCPUPL"


def test_an_output_larger_than_the_model_makes_is_an_error_that_names_it_at_execution() -> None:
    header, blob = unseal(MAGIC, probe_engine(tiny_onnx(0, image=(3, 16, 16)), (1, 2, 4)))
    (output,) = (binding for binding in header["bindings"] if not binding["is_input"])
    output["shape"][0] = 100  # the profile ends at 4
    buffers = Buffers(load(seal(MAGIC, header, blob)))
    buffers.upload({buffers.inputs[0]: np.zeros((2, 3, 16, 16), np.float32)})
    with pytest.raises(EngineError, match=rf"the plan says \(100, .*for tensor {output['name']}, its model differs"):
        buffers.execute()
    buffers.stream.synchronize()


def test_a_profile_is_set_in_a_stream_that_is_alive() -> None:
    buffers = Buffers(load(probe_engine(tiny_onnx(0, image=(3, 16, 16)), (1, 2, 4), (2, 4, 8))))
    with pytest.raises(LogicError, match="no live stream"):
        buffers.context.set_optimization_profile_async(1, 10**9)
    assert buffers.context.active_optimization_profile == 0
    assert buffers.context.set_optimization_profile_async(1, buffers.stream.handle)
    assert buffers.context.active_optimization_profile == 1


def test_inputs_on_which_the_network_cannot_run_are_an_engine_error() -> None:
    node = helper.make_node("GatherElements", ["x", "i"], ["y"])
    kinds = {"x": (FLOAT, [3, "n"]), "i": (INT64, [2, "m"])}, {"y": (FLOAT, [2, "m"])}
    x, index = np.zeros((3, 2), np.float32), np.zeros((2, 2), np.int64)
    shapes = {"x": ((3, 1), (3, 2), (3, 4)), "i": ((2, 1), (2, 2), (2, 4))}
    buffers = Buffers(load(build(model([node], *kinds), profiles=[shapes])))
    buffers.upload({"x": x, "i": index})
    assert buffers.execute()
    with pytest.raises(EngineError, match="the network cannot run on"):
        buffers.upload({"x": np.zeros((3, 4), np.float32), "i": index})
        buffers.execute()


def test_names_and_numbers_of_no_tensor_are_logged_and_give_nothing() -> None:
    engine = load(probe_engine(tiny_onnx(0, image=(3, 16, 16)), (1, 2, 4)))
    assert engine.get_tensor_name(2) is None and engine.get_tensor_name(-1) is None
    assert engine.create_execution_context().get_max_output_size("nothing") == -1
