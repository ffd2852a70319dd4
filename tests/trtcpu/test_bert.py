"""A BERT encoder of dynamic batch and length in FP32, FP16 and INT8; ONNX Runtime and PyTorch are the oracles."""

import functools
import io
import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from tests.conformance.calibrators import make_calibrator, scales_in
from tests.conformance.support import Buffers, build, captured, errors_in, inspect, load, relative_error
from tests.tools.own_models import bert
from trtcpu.errors import EngineError

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUTS = ("states", "pooled")
SIZES = ((1, 4), (3, 17), (8, 48))
PROFILE = {name: ((1, 4), (4, 16), (8, 48)) for name in INPUTS}
LINEAR_LAYERS = 2 * 6 + 1
FORMS = [(11, False), (14, True), (17, False), (17, True)]
Text = dict[str, np.ndarray]


@functools.cache
def exported(opset: int, fused: bool) -> bytes:
    data = io.BytesIO()
    axes = {**{name: {0: "batch", 1: "length"} for name in (*INPUTS, "states")}, "pooled": {0: "batch"}}
    names = {"input_names": INPUTS, "output_names": OUTPUTS, "dynamic_axes": axes, "opset_version": opset}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(bert(fused), tuple(map(torch.tensor, text(2, 16).values())), data, dynamo=False, **names)
    return data.getvalue()


def text(batch: int, length: int, seed: int = 0) -> Text:
    """Return sentences of a third of the length up to all of it, padded with word 0."""
    random = np.random.default_rng(seed)
    valid = (np.arange(length) < random.integers(length // 3 + 1, length + 1, (batch, 1))).astype(np.int64)
    words = random.integers(1, 100, (batch, length)) * valid
    return dict(zip(INPUTS, (words, valid, random.integers(0, 2, (batch, length)) * valid), strict=True))


@functools.cache
def plan(opset: int, fused: bool, precision: str = "FP32") -> bytes:
    flags = [] if precision == "FP32" else [precision]
    calibrator = None
    if precision == "INT8":
        calibrator = make_calibrator("entropy2", [text(4, 16, seed) for seed in range(8)])
    with captured() as messages:
        built = build(exported(opset, fused), flags=flags, profiles=[PROFILE], calibrator=calibrator)
    assert built is not None, errors_in(messages)
    return built


def ran(plan: bytes, given: Text) -> list[np.ndarray]:
    buffers = Buffers(load(plan))
    buffers.upload(given)
    assert buffers.execute()
    return [buffers.fetch(name) for name in OUTPUTS]


def expected(opset: int, fused: bool, given: Text) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(exported(opset, fused), providers=["CPUExecutionProvider"])
    return session.run(list(OUTPUTS), given)


def cosine(found: np.ndarray, wanted: np.ndarray) -> float:
    return float((found * wanted).sum() / np.linalg.norm(found) / np.linalg.norm(wanted))


def test_the_forms_have_the_operators_that_exporters_write_for_transformers() -> None:
    forms = [onnx.load_from_string(exported(*form)).graph for form in FORMS]
    operators = {node.op_type for graph in forms for node in graph.node}
    assert operators >= set(
        "Cast Concat Constant ConstantOfShape Div Equal Erf Expand Gather Gemm IsNaN LayerNormalization MatMul Range "
        "ReduceMean Reshape Shape Slice Softmax Sqrt Tanh Transpose Unsqueeze Where".split()
    )


@pytest.mark.parametrize(("opset", "fused"), FORMS)
def test_fp32_equals_onnx_runtime_at_every_batch_and_length(opset: int, fused: bool) -> None:
    for batch, length in SIZES:
        given = text(batch, length, seed=length)
        for found, wanted in zip(ran(plan(opset, fused), given), expected(opset, fused, given), strict=True):
            assert found.shape == wanted.shape and relative_error(found, wanted) < 1e-5


def test_fp32_equals_pytorch() -> None:
    given = text(5, 23)
    with torch.no_grad():
        wanted = bert()(*map(torch.tensor, given.values()))
    for found, tensor in zip(ran(plan(17, False), given), wanted, strict=True):
        assert relative_error(found, tensor.numpy()) < 1e-5


@pytest.mark.parametrize("fused", [False, True])
def test_fp16_stays_near_onnx_runtime(fused: bool) -> None:
    for batch, length in SIZES:
        given = text(batch, length, seed=length)
        for found, wanted in zip(ran(plan(17, fused, "FP16"), given), expected(17, fused, given), strict=True):
            assert relative_error(found, wanted) < 0.02


@pytest.mark.parametrize(("opset", "fused"), FORMS)
def test_int8_points_where_onnx_runtime_does(opset: int, fused: bool) -> None:
    for batch, length in SIZES:
        given = text(batch, length, seed=length)
        for found, wanted in zip(ran(plan(opset, fused, "INT8"), given), expected(opset, fused, given), strict=True):
            assert 0.99 < cosine(found, wanted) < 0.9999999


@pytest.mark.parametrize(("opset", "fused"), FORMS)
def test_int8_runs_every_linear_layer_in_int8(opset: int, fused: bool) -> None:
    layers = inspect(plan(opset, fused, "INT8"))["Layers"]
    linear = [layer for layer in layers if layer["LayerType"] == "FullyConnected"]
    assert len(linear) == LINEAR_LAYERS and {layer["Precision"] for layer in linear} == {"INT8"}
    assert all("MatMul + " in layer["Name"] or "Gemm" in layer["Name"] for layer in linear)
    assert all(layer["Weights"]["Type"] == "Int8" and layer["Weights"]["Count"] >= 64 * 64 for layer in linear)
    assert not [layer for layer in layers if layer["Precision"] == "INT8" and layer not in linear]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("precision", ["FP32", "FP16", "INT8"])
def test_padding_a_sentence_does_not_change_its_tokens(precision: str, fused: bool) -> None:
    words = {name: array[:, :10] for name, array in text(1, 30).items()}
    words["attention_mask"][:] = 1
    padded = {name: np.pad(array, ((0, 0), (0, 22))) for name, array in words.items()}
    padded["input_ids"][:, 10:] = 7
    engine = plan(17, fused, precision)
    tolerance = {"FP32": 1e-5, "FP16": 0.02, "INT8": 0.02}[precision]
    assert relative_error(ran(engine, padded)[0][:, :10], ran(engine, words)[0]) < tolerance
    seen = {**padded, "attention_mask": np.ones_like(padded["attention_mask"])}
    assert relative_error(ran(engine, seen)[0][:, :10], ran(engine, words)[0]) > 2 * tolerance


def test_a_batch_or_a_length_outside_the_profile_is_refused() -> None:
    context = load(plan(17, False)).create_execution_context()
    assert all(context.set_input_shape(name, (8, 48)) for name in INPUTS)
    with captured() as messages:
        assert not any(context.set_input_shape("input_ids", shape) for shape in ((9, 48), (8, 49), (8, 3)))
    assert errors_in(messages).count("does not satisfy any optimization profile") == 3
    assert tuple(context.get_tensor_shape("states")) == (8, 48, 64)


def test_inputs_of_two_lengths_do_not_run() -> None:
    buffers = Buffers(load(plan(17, False)))
    with pytest.raises(EngineError, match=r"cannot run on input_ids \[2, 16\], attention_mask \[2, 12\]"):
        buffers.upload({**text(2, 16), "attention_mask": np.ones((2, 12), np.int64)})


def test_a_calibrated_mask_neither_ends_the_calibration_nor_sets_a_scale() -> None:
    for opset, fused in FORMS:
        calibrator = make_calibrator("minmax", [text(4, 16, seed) for seed in range(2)])
        assert build(exported(opset, fused), flags=["INT8"], profiles=[PROFILE], calibrator=calibrator)
        assert max(scales_in(calibrator.written).values()) < 1
