"""Groups of layers, found from the names in ONNX files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from helpers.engine.layer_groups import choose_groups, ends, groups_in_file
from tests.trtlab.tiny_models import operator_onnx, tiny_onnx
from trtcpu.errors import InputError

RESNET = [
    "/conv1/Conv", "/relu/Relu", "/layer1/layer1.0/conv1/Conv", "/layer1/layer1.0/relu/Relu",
    "/layer1/layer1.0/downsample/downsample.0/Conv", "/layer1/layer1.1/conv1/Conv", "/layer4/layer4.2/conv3/Conv",
    "/layer4/layer4.2/relu_2/Relu", "/avgpool/GlobalAveragePool", "/fc/Conv",
]  # fmt: skip


def chain(path: Path, names: Sequence[str]) -> Path:
    """Write a model whose nodes, of the operator that ends each name, follow each other."""
    nodes, value = [], "x"
    for index, name in enumerate(names):
        operator = name.rpartition("/")[2].rstrip("_0123456789")
        inputs = [value, "weight"] if operator == "Conv" else [value]
        nodes.append(helper.make_node(operator, inputs, [f"t{index}"], name=name))
        value = f"t{index}"
    shape = ["batch", 4, 8, 8]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones((4, 4, 1, 1), np.float32), "weight")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def groups(path: Path) -> dict[str, tuple[str, ...]]:
    return {group.name: group.layers for group in groups_in_file(path)}


def test_a_resnet_has_a_stem_its_blocks_and_a_classifier(tmp_path: Path) -> None:
    assert groups(chain(tmp_path / "m.onnx", RESNET)) == {
        "stem": tuple(RESNET[:2]),
        "layer1.0": tuple(RESNET[2:5]),
        "layer1.1": (RESNET[5],),
        "layer4.2": tuple(RESNET[6:8]),
        "classifier": tuple(RESNET[8:]),
    }


def test_another_network_s_groups_are_its_modules_down_to_a_numbered_one(tmp_path: Path) -> None:
    names = [
        "/patch/Conv", "/features/features.0/conv/Conv", "/features/features.0/act/Relu", "/features/features.1/Conv",
        "/encoder/layers/layers.0/Conv", "/encoder/layers/layers.1/Conv", "/Relu", "/head/Conv",
    ]  # fmt: skip
    assert groups(chain(tmp_path / "m.onnx", names)) == {
        "patch": (names[0],),
        "features.0": tuple(names[1:3]),
        "features.1": (names[3],),
        "encoder/layers.0": (names[4],),
        "encoder/layers.1": tuple(names[5:7]),
        "head": (names[7],),
    }


def test_what_multiplies_nothing_belongs_to_the_group_before_it(tmp_path: Path) -> None:
    assert list(groups(tiny_onnx(tmp_path))) == ["stem.0", "block.0", "head"]


def test_names_that_say_nothing_give_groups_by_position(tmp_path: Path) -> None:
    names = [part for index in range(40) for part in (f"node_Conv_{index}", f"node_Relu_{index}")]
    path = tmp_path / "m.onnx"
    chain(path, [f"{name.split('_')[1]}" for name in names])
    model = onnx.load(str(path))
    for node, name in zip(model.graph.node, names, strict=True):
        node.name = name
    onnx.save(model, str(path))
    found = groups(path)
    assert list(found) == [f"part{index}" for index in range(1, 15)]
    assert [sum("Conv" in layer for layer in layers) for layers in found.values()] == [3] * 13 + [1]
    assert [layer for layers in found.values() for layer in layers] == names


def test_the_ends_are_the_first_and_the_last_layer_with_weights(tmp_path: Path) -> None:
    assert ends(groups_in_file(chain(tmp_path / "m.onnx", RESNET))) == ["/conv1/Conv", "/fc/Conv"]


def test_an_unknown_group_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    found = groups_in_file(tiny_onnx(tmp_path))
    assert [group.name for group in choose_groups(found, ["head", "stem.0"])] == ["stem.0", "head"]
    with pytest.raises(InputError, match=r"no group 'stem' in this network; its groups are stem\.0, block\.0, head"):
        choose_groups(found, ["head", "stem"])


def test_a_network_without_weights_has_no_groups(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no convolution and no matrix product"):
        groups_in_file(operator_onnx(tmp_path / "m.onnx", "Relu"))
