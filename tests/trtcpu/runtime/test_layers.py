"""What an engine runs: names of fused layers and the peak of the activations."""

from dataclasses import replace

from trtcpu._openvino import ExecutedNode
from trtcpu.plan import Plan
from trtcpu.runtime.layers import activation_bytes, layers_of


def _node(
    name: str, kind: str, inputs: list[int], shape: list[int], originals: str = "", kept: bool = True
) -> ExecutedNode:
    return ExecutedNode(
        name=name,
        kind=kind,
        precision="f32",
        primitive="jit",
        originals=originals.split(",") if originals else [],
        inputs=inputs,
        output_shapes=[[(d, d) for d in shape]],
        output_types=["f32"],
        layouts="abcd",
        from_input=kept,
    )


PLAN = Plan(
    network="net",
    hint="f32",
    bindings=[],
    profiles=[],
    operators={"/conv": "Conv", "/relu": "Relu", "/fc": "Gemm"},
    layer_of={"c": "/conv", "r": "/relu", "output": "/fc"},
)
NODES = [
    _node("input", "Input", [], [1, 10]),
    _node("weights", "Const", [], [500, 500], kept=False),
    _node("input_abcd_acdb", "Reorder", [0], [1, 10]),
    _node("/conv/WithoutBiases", "Convolution", [2, 1], [1, 20], "/conv/WithoutBiases,/conv,/relu"),
    _node("output", "FullyConnected", [3], [1, 5], "output"),
    _node("output/sink_port_0", "Output", [4], [1, 5], "output/sink_port_0"),
]


def test_fused_onnx_nodes_are_joined_and_constants_left_out() -> None:
    names = [layer.name for layer in layers_of(NODES, PLAN)]
    assert names == ["Reformatting CopyNode for Input Tensor 0 to /conv + /relu", "/conv + /relu", "/fc"]


def test_metadata_lists_the_onnx_layers() -> None:
    layer = layers_of(NODES, PLAN)[1].json
    assert layer["Metadata"] == "[ONNX Layer: /conv]\x1e[ONNX Layer: /relu]"
    assert layer["Precision"] == "FP32"


def test_two_helpers_of_one_layer_get_names_of_their_own() -> None:
    nodes = [*NODES[:3], _node("second", "Reorder", [2], [1, 10]), *NODES[3:]]
    nodes[4].inputs = [3, 1]
    nodes[5].inputs, nodes[6].inputs = [4], [5]
    names = [layer.name for layer in layers_of(nodes, PLAN)]
    assert len(names) == len(set(names)) == 4


def test_the_peak_counts_the_tensors_that_are_alive_at_once() -> None:
    # input 10, reorder 10, conv 20, fc 5 floats: the peak is reorder + conv.
    assert activation_bytes(NODES) == 4 * (10 + 20)


def test_a_tensor_that_is_read_late_stays_alive() -> None:
    nodes = [_node("input", "Input", [], [100])]
    nodes.append(_node("a", "Relu", [0], [10]))
    nodes.append(_node("b", "Relu", [1], [10]))
    nodes.append(_node("c", "Add", [2, 0], [100]))
    assert activation_bytes(nodes) == 4 * (100 + 10 + 100)


def test_a_layer_runs_in_its_kernels_precision_whatever_its_weights_are_stored_in() -> None:
    wide = ExecutedNode(**{**vars(NODES[3]), "precision": "f16", "primitive": "brgconv_avx512_1x1_f32"})
    brain = ExecutedNode(**{**vars(NODES[3]), "precision": "bf16", "primitive": "brgconv_avx512_core_amx_bf16"})
    plan = replace(PLAN, attributes={"/conv": {"Weights": {"Type": "Float", "Count": 10}}})
    shown = [layers_of([*NODES[:3], node], plan)[1].json for node in (wide, brain)]
    assert [(layer["Precision"], layer["Weights"]["Type"]) for layer in shown] == [
        ("FP32", "Half"),
        ("BF16", "BFloat16"),
    ]


def test_a_product_that_takes_its_bias_in_is_named_with_it_and_a_lone_addition_is_not() -> None:
    plan = replace(
        PLAN,
        operators={"/query/MatMul": "MatMul", "/query/Add": "Add"},
        products={"/query/Add": "/query/MatMul"},
        attributes={"/query/MatMul": {"Weights": {"Type": "Int8", "Count": 4096}}},
    )
    fused, alone = (
        layers_of([NODES[0], _node("a", kind, [0], [1, 20], "/query/Add")], plan)[0]
        for kind in ("FullyConnected", "Eltwise")
    )
    assert (fused.name, alone.name) == ("/query/MatMul + /query/Add", "/query/Add")
    assert fused.json["Weights"]["Count"] == 4096 and "Weights" not in alone.json


def test_a_selection_runs_in_the_type_of_its_values_not_of_its_condition() -> None:
    node = replace(_node("w", "Eltwise", [0], [1, 20], "/mask/Where"), precision="u8", output_types=["f32"])
    layer = layers_of([NODES[0], node], replace(PLAN, operators={"/mask/Where": "Where"}))[0]
    assert layer.json["Precision"] == "FP32"
