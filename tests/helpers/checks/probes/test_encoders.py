"""The encoder that is written node by node computes what the lab's PyTorch encoder does with its weights."""

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from helpers.checks.points.s11_bert.encoders import text_of
from helpers.checks.probes.encoders import DEPTH, encoder_onnx
from helpers.tools.outputs import onnx_session
from helpers.toys.bert.encoder import INPUTS, OUTPUTS, BertEncoder

_PARTS = {
    "q": "attention.query",
    "k": "attention.key",
    "v": "attention.value",
    "mix": "attention.mix",
    "wide": "wide",
    "narrow": "narrow",
    "norm1": "norm_1",
    "norm2": "norm_2",
}


def _loaded(model: bytes) -> BertEncoder:
    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load_from_string(model).graph.initializer}
    names = {f"block{n}.{part}": f"blocks.{n}.{own}" for n in range(DEPTH) for part, own in _PARTS.items()}
    names |= {"embedded": "norm", "pooler": "pooler"}
    state = {f"{table}.weight": found[table] for table in ("words", "positions", "types")}
    for name, own in names.items():
        linear = f"{name}.w" in found
        state[f"{own}.weight"] = found[f"{name}.w"].T.copy() if linear else found[f"{name}.scale"]
        state[f"{own}.bias"] = found[f"{name}.b" if linear else f"{name}.shift"]
    encoder = BertEncoder(positions=128, width=32, depth=DEPTH).eval()
    encoder.load_state_dict({name: torch.from_numpy(values.copy()) for name, values in state.items()})
    return encoder


def test_it_computes_what_pytorch_does_at_any_size() -> None:
    model = encoder_onnx(5)
    session, encoder = onnx_session(model), _loaded(model)
    assert [given.name for given in session.get_inputs()] == list(INPUTS)
    for batch, length in ((1, 1), (4, 19)):
        text = text_of(np.random.default_rng(length), batch, length)
        with torch.no_grad():
            expected = encoder(*map(torch.from_numpy, text.values()))
        for found, wanted in zip(session.run(list(OUTPUTS), text), expected, strict=True):
            np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-3, atol=1e-4)


def test_another_seed_gives_another_encoder_of_the_same_form() -> None:
    one, other = onnx.load_from_string(encoder_onnx(1)).graph, onnx.load_from_string(encoder_onnx(2)).graph
    assert [node.op_type for node in one.node] == [node.op_type for node in other.node]
    assert encoder_onnx(1) == encoder_onnx(1) != encoder_onnx(2)
