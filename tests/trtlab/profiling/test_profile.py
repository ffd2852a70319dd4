"""Do a profile's times add up, are FLOPs those that PyTorch counts, is the roofline near what NumPy reaches?"""

from pathlib import Path
from timeit import repeat

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.utils.flop_counter import FlopCounterMode

from helpers.engine.backend import DEVICE
from helpers.engine.fused_layers import LayerGraph, onnx_names
from tests.trtlab.tiny_models import SIZE, TinyNet, tiny_onnx
from trtlab.building.build import BuildOptions, build_engine
from trtlab.profiling.profile import (
    EngineProfile,
    LayerProfile,
    Roofline,
    layer_cost,
    measure_roofline,
    profile_engine,
)

ROOF = Roofline("test", {"fp32": 100.0, "int8": 400.0}, 10.0)
PRODUCTS = {"Conv", "Gemm", "MatMul"}
BATCH = 4


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("profile")
    build_engine(tiny_onnx(folder), folder / "fp32.engine", BuildOptions())
    return folder / "fp32.engine"


@pytest.fixture(scope="module")
def profile(engine: Path) -> EngineProfile:
    return profile_engine(engine, iterations=10)


def test_times_and_shares_add_up_the_slowest_comes_first_and_the_inspector_knows_each_layer(
    profile: EngineProfile,
) -> None:
    times = [layer.time_ms for layer in profile.layers]
    assert times == sorted(times, reverse=True) and sum(times) == pytest.approx(profile.total_ms)
    assert sum(layer.share_percent for layer in profile.layers) == pytest.approx(100)
    assert profile.device == DEVICE and all(layer.layer_type != "?" for layer in profile.layers)
    for finding, layer in zip(profile.findings(2), profile.layers, strict=False):
        assert finding.startswith(f"{layer.name} takes ")


def test_convolutions_have_a_bound_and_never_beat_the_arithmetic_roof(profile: EngineProfile) -> None:
    convolutions = [layer for layer in profile.layers if "Conv" in layer.name and layer.flops]
    assert convolutions
    for layer in convolutions:
        assert layer.bound in ("compute", "memory") and layer.precision == "fp32" and layer.roof_percent > 0
        assert layer.flops / layer.time_ms / 1e6 <= profile.roofline.peak_gflops["fp32"] * (1 + 1e-9)


@pytest.mark.parametrize("onnx", ["none.onnx", "garbage.onnx"])
def test_without_an_onnx_file_that_can_be_read_layers_have_times_and_no_bounds(
    engine: Path, tmp_path: Path, onnx: str
) -> None:
    lonely = tmp_path / "lonely.engine"
    lonely.write_bytes(engine.read_bytes())
    (tmp_path / "lonely.engine.json").write_text(f'{{"onnx": "{tmp_path / onnx}"}}')
    (tmp_path / "garbage.onnx").write_bytes(b"garbage" * 20)
    found = profile_engine(lonely, batch=2, iterations=2)
    assert found.batch == 2 and found.costs_from.startswith("no file")
    assert found.total_ms > 0 and not any(layer.bound for layer in found.layers)


def test_the_least_time_is_the_slower_of_arithmetic_and_memory() -> None:
    assert ROOF.ridge("fp32") == 10.0
    assert ROOF.least_ms("fp32", 100e6, 1e6) == pytest.approx(1.0)
    assert ROOF.least_ms("fp32", 1e6, 100e6) == pytest.approx(10.0)


def test_a_rate_that_was_attained_raises_the_peak_of_its_precision_alone() -> None:
    raised = ROOF.raised([("fp32", 50.0), ("fp32", 150.0), ("other", 900.0)])
    assert raised.peak_gflops == {"fp32": 150.0, "int8": 400.0} and ROOF.peak_gflops["fp32"] == 100.0


@pytest.mark.parametrize(
    "precision, bound, roof_percent, said",
    [
        ("fp32", None, None, "its arithmetic is unknown"),
        ("fp32", "memory", 2.0, "overhead (a larger batch helps)"),
        ("fp32", "memory", 200.0, "its data stay in the cache"),
        ("fp32", "memory", 60.0, "left of the ridge at 10.0, so memory bandwidth bounds it; it reaches 60 %"),
        (
            "fp32",
            "compute",
            60.0,
            "right of the ridge at 10.0, so arithmetic bounds it; it reaches 60 % of that roof (a l",
        ),
        ("int8", "compute", 60.0, "fewer operations help"),
    ],
)
def test_a_finding_says_what_bounds_a_layer(
    precision: str, bound: str | None, roof_percent: float | None, said: str
) -> None:
    layer = LayerProfile("conv", "Convolution", precision, 1.5, 40.0, 1e6, 1e5, 10.0, bound, roof_percent)
    (found,) = EngineProfile("e.engine", "CPU", 1, 1, 3.75, [layer], ROOF, "the ONNX graph").findings(3)
    assert found.startswith(f"conv takes 1.5 ms (40 %) in {precision}") and said in found


def test_the_measured_peaks_are_near_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helpers.engine.peaks.COPY_BYTES", {"cpu": 1 << 26})
    roof = measure_roofline(["fp32", "fp16", "int8", "other"])
    assert sorted(roof.peak_gflops) == ["fp16", "fp32", "int8"]
    left = np.ones((1024, 1024), np.float32)
    source = np.ones(1 << 26, np.uint8)
    gflops = 2 * 1024**3 / min(repeat(lambda: left @ left, number=1, repeat=6)) / 1e9
    copied = 2 * source.nbytes / min(repeat(source.copy, number=1, repeat=6)) / 1e9
    assert gflops / 10 < roof.peak_gflops["fp32"] < gflops * 10
    assert all(peak > gflops / 10 for peak in roof.peak_gflops.values())  # no slow kernel of an odd type
    assert copied / 10 < roof.bandwidth_gb_s < copied * 10


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> LayerGraph:
    return LayerGraph.load(tiny_onnx(tmp_path_factory.mktemp("model")), {"input": (BATCH, 3, SIZE, SIZE)})


def test_products_have_the_flops_that_pytorch_counts(graph: LayerGraph) -> None:
    names = [name for name, node in graph.nodes.items() if node.op in PRODUCTS]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        TinyNet().eval()(torch.zeros(BATCH, 3, SIZE, SIZE))
    assert sum(layer_cost(graph.layer([name]))[0] for name in names) == counter.get_total_flops()


def test_what_lies_between_fused_nodes_is_not_moved(graph: LayerGraph) -> None:
    conv, relu = list(graph.nodes)[:2]
    read, weights, written = BATCH * 3 * SIZE**2, 16 * 3 * 9 + 16, BATCH * 16 * (SIZE // 2) ** 2
    flops, moved = layer_cost(graph.layer([conv]))
    assert moved == read + weights + written
    assert layer_cost(graph.layer([conv, relu])) == (flops + written, moved)


def graph_of(
    path: Path, weights: dict[str, tuple[int, ...]], *nodes: onnx.NodeProto, x: tuple[int, ...] = (2, 4, 5, 5)
) -> LayerGraph:
    """A graph that reads x and pads of (8,), and writes y."""
    inputs = [("x", TensorProto.FLOAT, x), ("pads", TensorProto.INT64, (8,))]
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return LayerGraph.load(path, {name: shape for name, _, shape in inputs})


@pytest.mark.parametrize("groups", [1, 2])
def test_a_transposed_convolution_multiplies_each_input_value_with_each_weight_of_its_channel(
    tmp_path: Path, groups: int
) -> None:
    made = helper.make_node("ConvTranspose", ["x", "w"], ["y"], "up", group=groups, strides=[2, 2])
    flops, moved = layer_cost(graph_of(tmp_path / "m.onnx", {"w": (4, 3, 2, 2)}, made).layer(["up"]))
    assert flops == 2 * (2 * 4 * 5 * 5) * (3 * 2 * 2)
    assert moved == 2 * 4 * 5 * 5 + 4 * 3 * 2 * 2 + 2 * (3 * groups) * 10 * 10


def test_a_recurrent_layer_multiplies_in_each_step(tmp_path: Path) -> None:
    steps, batch, size, hidden, directions = 7, 2, 5, 3, 2
    made = helper.make_node("LSTM", ["x", "w", "r"], ["y"], "lstm", hidden_size=hidden, direction="bidirectional")
    weights = {"w": (directions, 4 * hidden, size), "r": (directions, 4 * hidden, hidden)}
    graph = graph_of(tmp_path / "m.onnx", weights, made, x=(steps, batch, size))
    gates = 2 * (size + hidden) * 4 * hidden  # of one sample in one step
    assert layer_cost(graph.layer(["lstm"]))[0] == steps * batch * directions * gates


def test_a_product_of_integers_counts_as_that_of_floats(tmp_path: Path) -> None:
    a, b = ["a", "scale", "zero"], ["b", "scale_w", "zero_w"]
    made = [
        helper.make_node("DynamicQuantizeLinear", ["x"], a),
        helper.make_node("DynamicQuantizeLinear", ["w"], b),
        helper.make_node("MatMulInteger", ["a", "b", "zero", "zero_w"], ["c"], "integers"),
        helper.make_node("QLinearMatMul", [*a, *b, "scale", "zero"], ["d"], "quantised"),
        helper.make_node("Cast", ["d"], ["y"], to=TensorProto.FLOAT),
    ]
    graph = graph_of(tmp_path / "m.onnx", {"w": (5, 3)}, *made)
    assert [layer_cost(graph.layer([name]))[0] for name in ("integers", "quantised")] == [2 * (2 * 4 * 5 * 3) * 5] * 2


def test_a_layer_with_a_shape_that_is_computed_at_run_time_has_no_cost(tmp_path: Path) -> None:
    made = [
        helper.make_node("Conv", ["x", "w"], ["a"], "known"),
        helper.make_node("Pad", ["a", "pads"], ["b"], "pad"),
        helper.make_node("Conv", ["b", "w"], ["y"], "unknown"),
    ]
    graph = graph_of(tmp_path / "m.onnx", {"w": (4, 4, 3, 3)}, *made)
    assert layer_cost(graph.layer(["known"]))[0] == 2 * (2 * 4 * 3 * 3) * (4 * 3 * 3)
    assert [graph.layer(names) for names in (["pad"], ["unknown"], ["known", "pad", "unknown"])] == [None] * 3


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
