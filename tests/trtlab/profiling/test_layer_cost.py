"""Are FLOPs those that PyTorch counts, and are elements moved once where layers are fused?"""

import json
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from helpers.engine.fused_layers import LayerGraph, onnx_names
from tests.trtlab.tiny_models import SIZE, TinyNet, tiny_onnx
from trtcpu.errors import InputError
from trtlab.profiling.layer_cost import inspector_cost, layer_cost

RECORDED = json.loads((Path(__file__).parents[2] / "fixtures/inspector_tensorrt_8_6.json").read_text())
PRODUCTS = {"Conv", "Gemm", "MatMul"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_onnx(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("batch", [1, 5])
def test_products_have_the_flops_that_pytorch_counts(model: Path, batch: int) -> None:
    graph = LayerGraph.load(model, {"input": (batch, 3, SIZE, SIZE)})
    names = [name for name, node in graph.nodes.items() if node.op in PRODUCTS]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        TinyNet().eval()(torch.zeros(batch, 3, SIZE, SIZE))
    assert sum(layer_cost(graph.layer([name])).flops for name in names) == counter.get_total_flops()


def test_a_convolution_reads_its_input_and_weights_and_writes_its_output(model: Path) -> None:
    graph = LayerGraph.load(model, {"input": (4, 3, SIZE, SIZE)})
    first = next(name for name, node in graph.nodes.items() if node.op == "Conv")
    cost = layer_cost(graph.layer([first]))
    assert cost.activations == 4 * 3 * SIZE**2 + 4 * 16 * (SIZE // 2) ** 2
    assert cost.weights == 16 * 3 * 9 + 16
    assert cost.moved_bytes(2) == 2 * (cost.activations + cost.weights)


def test_what_lies_between_fused_nodes_is_not_moved(model: Path) -> None:
    graph = LayerGraph.load(model, {"input": (4, 3, SIZE, SIZE)})
    conv, relu = list(graph.nodes)[:2]
    fused, alone = layer_cost(graph.layer([conv, relu])), layer_cost(graph.layer([conv]))
    assert fused.activations == alone.activations
    assert fused.flops == alone.flops + 4 * 16 * (SIZE // 2) ** 2


def test_a_layer_that_is_not_in_the_graph_has_no_cost(model: Path) -> None:
    assert LayerGraph.load(model, {"input": (1, 3, SIZE, SIZE)}).layer(["Reformatting CopyNode"]) is None


def test_a_copy_between_layouts_is_not_taken_for_the_layer_that_it_is_named_after(model: Path) -> None:
    graph = LayerGraph.load(model, {"input": (1, 3, SIZE, SIZE)})
    conv, relu = list(graph.nodes)[:2]
    copy = {"Name": f"Reformatting CopyNode for Input Tensor 0 to {conv} + {relu}"}
    assert graph.layer(onnx_names({"Name": f"{conv} + {relu}"})) is not None
    assert graph.layer(onnx_names(copy)) is None


def test_names_come_from_tensorrts_metadata_or_from_the_layers_name() -> None:
    described = {"Name": "x", "Metadata": "[ONNX Layer: /a/Conv]\x1e[ONNX Layer: /a/Relu]"}
    assert onnx_names(described) == ["/a/Conv", "/a/Relu"]
    assert onnx_names({"Name": "/a/Conv + /a/Relu", "Metadata": ""}) == ["/a/Conv", "/a/Relu"]


def test_a_recorded_convolution_of_resnet50_has_its_known_flops() -> None:
    layers = [layer for layer in RECORDED["fp32"] if layer["Name"].startswith("/conv1/Conv")]
    cost = inspector_cost(layers[0], 2)
    assert cost.flops == 2 * 2 * 64 * 112 * 112 * 3 * 7 * 7
    assert cost.activations == 2 * (3 * 224 * 224 + 64 * 112 * 112)


def test_a_recorded_convolution_fused_with_its_pooling_has_no_cost_as_its_own_output_is_unknown() -> None:
    (fused,) = [layer for layer in RECORDED["int8"] if layer["LayerType"] == "CaskConvActPool"]
    assert inspector_cost(fused, 1) is None


@pytest.mark.parametrize("layer", [{}, {"Name": "x"}, {"Weights": {"Count": 3}}, {"Weights": 3, "Outputs": [{}]}])
def test_a_layer_without_dimensions_has_no_cost(layer: dict) -> None:
    assert inspector_cost(layer, 1) is None


def test_a_file_that_is_no_onnx_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"garbage" * 20)
    for path in (tmp_path / "m.onnx", tmp_path / "missing.onnx"):
        with pytest.raises(InputError, match="cannot read the ONNX file"):
            LayerGraph.load(path, {})
