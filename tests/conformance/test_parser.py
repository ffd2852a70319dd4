"""OnnxParser: errors are kept, never raised."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.engine.backend import network_flags, trt
from tests.conformance import models
from tests.conformance.support import LOG, VERSION, load, parsed, relative_error, run


def new_parser() -> tuple[Any, Any, Any]:
    builder = trt.Builder(LOG)
    network = builder.create_network(network_flags())
    return builder, network, trt.OnnxParser(network, LOG)


def test_good_model_parses_without_errors() -> None:
    _, network, parser = parsed(models.conv_relu())
    assert parser.num_errors == 0
    assert (network.num_inputs, network.num_outputs) == (1, 1)


def test_garbage_is_false_with_one_error_that_names_deserialization() -> None:
    _, _, parser = new_parser()
    assert parser.parse(b"garbage") is False
    assert parser.num_errors == 1
    assert parser.get_error(0).code() == trt.ErrorCode.MODEL_DESERIALIZE_FAILED
    assert parser.get_error(0).desc()


def test_truncated_model_is_false() -> None:
    _, _, parser = new_parser()
    assert parser.parse(models.residual()[:2000]) is False and parser.num_errors >= 1


def test_clear_errors_leaves_none() -> None:
    _, _, parser = new_parser()
    parser.parse(b"garbage")
    parser.clear_errors()
    assert parser.num_errors == 0


def test_unsupported_operator_is_false_and_named_with_its_node() -> None:
    _, _, parser = new_parser()
    assert parser.parse(models.unsupported_operator()) is False
    error = parser.get_error(0)
    assert error.node() == 0
    if VERSION >= (10,):  # 8.6 looks for a plugin of that name and only says that there is none
        assert "Frobnicate" in error.desc() + str(error)
    assert error.code() != trt.ErrorCode.SUCCESS


def test_supports_operator_knows_conv_and_not_frobnicate() -> None:
    _, _, parser = new_parser()
    assert parser.supports_operator("Conv") is True and parser.supports_operator("Frobnicate") is False


def test_file_parses_as_bytes_do(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(models.conv_relu())
    _, network, parser = new_parser()
    assert parser.parse_from_file(str(path)) is True
    assert tuple(network.get_input(0).shape) == (-1, 3, 8, 8)


def test_missing_file_is_false(tmp_path: Path) -> None:
    _, _, parser = new_parser()
    assert parser.parse_from_file(str(tmp_path / "none.onnx")) is False


def test_external_data_is_found_through_the_path(tmp_path: Path) -> None:
    path = models.external_data(str(tmp_path))
    builder, network, parser = new_parser()
    assert parser.parse(Path(path).read_bytes(), path=path) is True
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    x = np.random.default_rng(0).standard_normal((4, 32)).astype(np.float32)
    assert relative_error(run(plan, x=x), models.reference(models.gemm(4), x=x)) < 5e-3


def test_external_data_without_a_path_is_false(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = models.external_data(str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    _, _, parser = new_parser()
    assert parser.parse(Path(path).read_bytes()) is False and parser.num_errors >= 1


def test_external_data_that_is_missing_is_false(tmp_path: Path) -> None:
    path = models.external_data(str(tmp_path))
    os.remove(tmp_path / "weights.bin")
    _, _, parser = new_parser()
    assert parser.parse_from_file(path) is False and parser.num_errors >= 1


def test_engine_of_a_parsed_model_has_the_models_names() -> None:
    builder, network, _ = parsed(models.gemm(4))
    network.name = "classifier"
    engine = load(bytes(builder.build_serialized_network(network, builder.create_builder_config())))
    assert engine.name == "classifier"
    assert [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)] == ["x", "y"]
