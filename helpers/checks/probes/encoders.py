"""A small BERT encoder as an ONNX file, node by node, with fresh random weights: what step 11's builder is tried on."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from helpers.toys.bert.encoder import INPUTS, MASKED, OUTPUTS

_WORDS, _POSITIONS, _WIDTH, _HEADS = 100, 128, 32, 4
DEPTH = 2
LINEAR_LAYERS = 6 * DEPTH + 1
"""Products with weights: six a block, and the pooler's."""

_OPSET, _IR_VERSION = 17, 8


def encoder_onnx(seed: int) -> bytes:
    """Return the file: `INPUTS` int32 [batch, length], `hidden` [batch, length, 32] and `pooled` [batch, 32]."""
    return _Graph(seed).encoder()


class _Graph:
    """Nodes and weights as they are added; each method returns the name of what it makes."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []

    def encoder(self) -> bytes:
        hidden, mask = self._embedded(), self._mask()
        for block in range(DEPTH):
            hidden = self._block(hidden, mask, f"block{block}")
        first = self.op("Gather", hidden, self.constant("zero", np.int64(0)), axis=1)
        self.op("Identity", hidden, makes=OUTPUTS[0])
        self.op("Tanh", self._linear(first, _WIDTH, _WIDTH, "pooler"), makes=OUTPUTS[1])
        return self._serialized()

    def op(self, kind: str, *given: str, makes: str = "", **attributes: Any) -> str:
        """Add a node, named by its kind and number."""
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(given), [makes or name], name=name, **attributes))
        return makes or name

    def constant(self, name: str, values: Any) -> str:
        """Add an initializer, once for each name."""
        if name not in {tensor.name for tensor in self.weights}:
            self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def _normal(self, name: str, shape: tuple[int, ...], scale: float, mean: float = 0) -> str:
        return self.constant(name, self.random.normal(mean, scale, shape).astype(np.float32))

    def _embedded(self) -> str:
        length = self.op("Gather", self.op("Shape", INPUTS[0]), self.constant("one", np.int64(1)), axis=0)
        places = self.op("Range", self.constant("zero", np.int64(0)), length, self.constant("one", np.int64(1)))
        tables = (("words", _WORDS, INPUTS[0]), ("positions", _POSITIONS, places), ("types", 2, INPUTS[2]))
        looked_up = [
            self.op("Gather", self._normal(name, (rows, _WIDTH), 1), given, axis=0) for name, rows, given in tables
        ]
        return self._norm(self.op("Add", self.op("Add", looked_up[0], looked_up[1]), looked_up[2]), "embedded")

    def _mask(self) -> str:
        valid = self.op("Cast", INPUTS[1], to=TensorProto.FLOAT)
        padding = self.op("Sub", self.constant("float_one", np.float32(1)), valid)
        added = self.op("Mul", padding, self.constant("masked", np.float32(MASKED)))
        return self.op("Unsqueeze", added, self.constant("axes", np.array([1, 2])))

    def _block(self, hidden: str, mask: str, name: str) -> str:
        query, key, value = (self._linear(hidden, _WIDTH, _WIDTH, f"{name}.{part}") for part in ("q", "k", "v"))
        scores = self.op("MatMul", self._by_head(query), self._by_head(key, turned=True))
        root = self.constant("root", np.float32((_WIDTH / _HEADS) ** 0.5))
        shares = self.op("Softmax", self.op("Add", self.op("Div", scores, root), mask), axis=-1)
        attended = self.op("Transpose", self.op("MatMul", shares, self._by_head(value)), perm=[0, 2, 1, 3])
        joined = self.op("Reshape", attended, self.constant("joined", np.array([0, 0, _WIDTH])))
        mixed = self._linear(joined, _WIDTH, _WIDTH, f"{name}.mix")
        hidden = self._norm(self.op("Add", hidden, mixed), f"{name}.norm1")
        wide = self._gelu(self._linear(hidden, _WIDTH, 4 * _WIDTH, f"{name}.wide"))
        narrow = self._linear(wide, 4 * _WIDTH, _WIDTH, f"{name}.narrow")
        return self._norm(self.op("Add", hidden, narrow), f"{name}.norm2")

    def _by_head(self, values: str, *, turned: bool = False) -> str:
        apart = self.op("Reshape", values, self.constant("heads", np.array([0, 0, _HEADS, _WIDTH // _HEADS])))
        return self.op("Transpose", apart, perm=[0, 2, 3, 1] if turned else [0, 2, 1, 3])

    def _linear(self, values: str, inputs: int, outputs: int, name: str) -> str:
        product = self.op("MatMul", values, self._normal(f"{name}.w", (inputs, outputs), inputs**-0.5))
        return self.op("Add", product, self._normal(f"{name}.b", (outputs,), 0.1))

    def _norm(self, values: str, name: str) -> str:
        scale, shift = self._normal(f"{name}.scale", (_WIDTH,), 0.1, 1), self._normal(f"{name}.shift", (_WIDTH,), 0.1)
        return self.op("LayerNormalization", values, scale, shift, axis=-1, epsilon=1e-12)

    def _gelu(self, values: str) -> str:
        ratio = self.op("Erf", self.op("Div", values, self.constant("root_two", np.float32(2**0.5))))
        share = self.op("Add", ratio, self.constant("float_one", np.float32(1)))
        return self.op("Mul", self.op("Mul", values, share), self.constant("half", np.float32(0.5)))

    def _serialized(self) -> bytes:
        given = [helper.make_tensor_value_info(name, TensorProto.INT32, ["batch", "length"]) for name in INPUTS]
        shapes = (["batch", "length", _WIDTH], ["batch", _WIDTH])
        made = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in zip(OUTPUTS, shapes, strict=True)
        ]
        graph = helper.make_graph(self.nodes, "encoder", given, made, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
        onnx.checker.check_model(model, full_check=True)
        return model.SerializeToString()
