"""Contexts: a plan whose header tells another output than its model makes, a stream that is none."""

import numpy as np
import pytest

from helpers.engine.given import probe_engine
from helpers.toys.networks import tiny_onnx
from tests.conformance.support import Buffers, load
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
