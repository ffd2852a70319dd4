"""Layer precisions, read from layers that TensorRT 8.6 reported on an H200 (ResNet-50, dynamic batch)."""

import json
from pathlib import Path

import pytest

from helpers.engine.layers import count_precisions, layer_precision

RECORDED = json.loads((Path(__file__).parents[2] / "fixtures/inspector_tensorrt_8_6.json").read_text())


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8", "tf32"])
def test_a_convolution_runs_in_the_precision_that_tensorrt_chose(precision: str) -> None:
    layers = [layer for layer in RECORDED[precision] if "Convolution" in layer["LayerType"]]
    assert {layer_precision(layer) for layer in layers} == {precision}


def test_reformats_and_reshapes_are_counted_as_other() -> None:
    assert count_precisions(RECORDED["int8"])["other"] == 1


@pytest.mark.parametrize(
    "layer, precision",
    [
        ({"Name": "a", "Precision": "INT8"}, "int8"),
        ({"Inputs": [{"Format/Datatype": "Channel major FP16 format where channel % 8 == 0"}]}, "fp16"),
        ({"Inputs": [{"Format/Datatype": "Thirty-two wide channel vectorized row major Int8 format"}]}, "int8"),
        ({"Inputs": [{"Format/Datatype": "Row major linear FP32"}]}, "fp32"),
        ({"Inputs": [{"Format/Datatype": "BF16"}]}, "bf16"),
        ({"Inputs": [{"Format": "Row major linear", "Datatype": "FP16"}]}, "fp16"),
        ({"Inputs": []}, "other"),
        ({}, "other"),
    ],
)
def test_a_format_names_the_precision(layer: dict, precision: str) -> None:
    assert layer_precision(layer) == precision
