"""Small values: enumerations, types, shapes, loggers."""

import re

import numpy as np
import pytest

from helpers.engine.backend import trt
from tests.conformance import models
from tests.conformance.support import LOG, Log


def test_enum_members_convert_to_int_and_print_by_name() -> None:
    assert 1 << int(trt.DataType.HALF) == 2
    assert repr(trt.DataType.FLOAT) == "<DataType.FLOAT: 0>" and trt.DataType(1) == trt.DataType.HALF
    assert trt.BuilderFlag.__members__["TF32"] == trt.BuilderFlag.TF32 and trt.DataType.FLOAT != 0
    assert trt.BuilderFlag.TF32.name == "TF32" and trt.BuilderFlag.TF32 != trt.BuilderFlag.DEBUG
    assert str(trt.DataType.HALF) == "DataType.HALF" and str(trt.Logger.ERROR) == "Severity.ERROR"
    assert trt.Logger.ERROR < trt.Logger.WARNING and trt.float16 == trt.DataType.HALF


def test_nptype_gives_numpys_type() -> None:
    assert trt.nptype(trt.float32) == np.float32 and trt.nptype(trt.DataType.HALF) == np.float16
    assert trt.nptype(trt.int8) == np.int8 and trt.nptype(trt.int32) == np.int32


def test_itemsize_is_in_bytes() -> None:
    sizes = {trt.float32: 4, trt.float16: 2, trt.int8: 1, trt.int32: 4}
    assert {kind: kind.itemsize for kind in sizes} == sizes


def test_volume_is_the_product_and_one_for_a_scalar() -> None:
    assert trt.volume((2, 3, 4)) == 24 and trt.volume(()) == 1 and trt.volume(trt.Dims([5, 2])) == 10


def test_dims_behave_like_a_tuple() -> None:
    dims = trt.Dims((1, 3, 8, 8))
    assert len(dims) == 4 and dims[1] == 3 and tuple(dims) == (1, 3, 8, 8) and list(dims[2:]) == [8, 8]
    assert dims == (1, 3, 8, 8) and str(dims) == "(1, 3, 8, 8)" and dims[-1] == 8
    with pytest.raises(IndexError):
        dims[4]


def test_version_starts_with_major_and_minor() -> None:
    assert re.match(r"\d+\.\d+\.\d+", trt.__version__)


def test_plugins_initialise() -> None:
    assert trt.init_libnvinfer_plugins(LOG, "") is True


def test_default_logger_prints_date_origin_letter_and_text(capfd: pytest.CaptureFixture[str]) -> None:
    trt.Logger(trt.Logger.WARNING).log(trt.Logger.WARNING, "mind the gap")
    printed = capfd.readouterr()
    assert re.search(r"\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] \[TRT\] \[W\] mind the gap", printed.out + printed.err)


def test_default_logger_keeps_quiet_below_its_severity(capfd: pytest.CaptureFixture[str]) -> None:
    logger = trt.Logger()
    assert logger.min_severity == trt.Logger.WARNING
    logger.log(trt.Logger.INFO, "nobody asked")
    logger.min_severity = trt.Logger.ERROR
    logger.log(trt.Logger.WARNING, "nor for this")
    printed = capfd.readouterr()
    assert "nobody" not in printed.out + printed.err and "nor" not in printed.out + printed.err


def test_own_logger_gets_severity_and_text() -> None:
    log = Log()
    builder = trt.Builder(log)
    network = builder.create_network(1)
    assert trt.OnnxParser(network, log).parse(models.conv_relu())
    assert builder.build_serialized_network(network, builder.create_builder_config()) is None
    assert any(severity == "ERROR" and "profile" in text for severity, text in log.messages)
