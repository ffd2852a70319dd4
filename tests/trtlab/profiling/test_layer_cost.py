"""Are FLOPs those that PyTorch counts, and are elements moved once where layers are fused?"""

import json
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from helpers.engine.fused_layers import LayerGraph, onnx_names
from tests.trtlab.tiny_models import SIZE, TinyNet, tiny_onnx
from trtcpu.errors import InputError
from trtlab.profiling.profile import inspector_cost, layer_cost

RECORDED = json.loads((Path(__file__).parents[2] / "fixtures/inspector_tensorrt_8_6.json").read_text())
PRODUCTS = {"Conv", "Gemm", "MatMul"}
BATCH = 4


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> LayerGraph:
    return LayerGraph.load(tiny_onnx(tmp_path_factory.mktemp("model")), {"input": (BATCH, 3, SIZE, SIZE)})


def test_products_have_the_flops_that_pytorch_counts(graph: LayerGraph) -> None:
    names = [name for name, node in graph.nodes.items() if node.op in PRODUCTS]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        TinyNet().eval()(torch.zeros(BATCH, 3, SIZE, SIZE))
    assert sum(layer_cost(graph.layer([name])).flops for name in names) == counter.get_total_flops()


def test_what_lies_between_fused_nodes_is_not_moved(graph: LayerGraph) -> None:
    conv, relu = list(graph.nodes)[:2]
    read, weights, written = BATCH * 3 * SIZE**2, 16 * 3 * 9 + 16, BATCH * 16 * (SIZE // 2) ** 2
    alone, fused = layer_cost(graph.layer([conv])), layer_cost(graph.layer([conv, relu]))
    assert alone.elements == fused.elements == read + weights + written
    assert fused.flops == alone.flops + written


@pytest.mark.parametrize(
    "described, names",
    [
        ({"Name": "{conv} + {relu}", "Metadata": ""}, ["{conv}", "{relu}"]),
        ({"Name": "x", "Metadata": "[ONNX Layer: {conv}]\x1e[ONNX Layer: {relu}]"}, ["{conv}", "{relu}"]),
        ({"Name": "Reformatting CopyNode for Input Tensor 0 to {conv} + {relu}"}, []),
    ],
)
def test_names_come_from_metadata_or_the_layers_name_and_a_copy_is_not_what_it_is_named_after(
    graph: LayerGraph, described: dict, names: list[str]
) -> None:
    conv, relu = list(graph.nodes)[:2]
    found = onnx_names({key: text.format(conv=conv, relu=relu) for key, text in described.items()})
    assert found == [name.format(conv=conv, relu=relu) for name in names]
    assert (graph.layer(found) is None) == (not names)


def test_a_recorded_convolution_of_resnet50_has_its_known_cost() -> None:
    layer = next(layer for layer in RECORDED["fp32"] if layer["Name"].startswith("/conv1/Conv"))
    cost = inspector_cost(layer, 2)
    assert cost.flops == 2 * 2 * 64 * 112 * 112 * 3 * 7 * 7
    assert cost.elements == 2 * (3 * 224 * 224 + 64 * 112 * 112) + 64 * 3 * 7 * 7


FUSED_WITH_POOLING = next(layer for layer in RECORDED["int8"] if layer["LayerType"] == "CaskConvActPool")
UNKNOWN = [{}, {"Name": "x"}, {"Weights": {"Count": 3}}, {"Weights": 3, "Outputs": [{}]}, FUSED_WITH_POOLING]


@pytest.mark.parametrize("layer", UNKNOWN)
def test_a_layer_without_dimensions_or_whose_own_output_is_unknown_has_no_cost(layer: dict) -> None:
    assert inspector_cost(layer, 1) is None


def test_a_file_that_is_no_onnx_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"garbage" * 20)
    with pytest.raises(InputError, match="cannot read the ONNX file"):
        LayerGraph.load(tmp_path / "m.onnx", {})
