"""Timings that are offered to builds: every configuration has them, and what was built adds to them."""

import pytest

from helpers.engine.backend import trt
from helpers.engine.timings import offered_timings, read_timings
from helpers.toys.networks import tiny_onnx
from trtcpu.errors import InputError


def _configured() -> tuple[object, object]:
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    assert trt.OnnxParser(network, logger).parse(tiny_onnx(0, batch=2))
    config = builder.create_builder_config()
    return config, lambda: builder.build_serialized_network(network, config)


def test_a_configuration_made_in_the_block_has_the_timings_and_keeps_what_its_build_adds() -> None:
    with offered_timings(trt, b"") as offered:
        config, build = _configured()
        empty = offered.filled()
        assert build() is not None
    assert len(offered.filled()) > len(empty)
    assert offered.configurations == [config]


def test_outside_the_block_nothing_is_offered() -> None:
    with offered_timings(trt, b""):
        pass
    config, _ = _configured()
    assert config.get_timing_cache() is None


def test_a_cache_of_its_own_replaces_what_is_offered() -> None:
    with offered_timings(trt, b"") as offered:
        config, build = _configured()
        config.set_timing_cache(config.create_timing_cache(b""), False)
        assert build() is not None
        assert offered.filled() == bytes(config.get_timing_cache().serialize())


def test_a_file_of_timings_that_cannot_be_read_is_named_with_its_variable(tmp_path) -> None:
    (tmp_path / "timings").write_bytes(b"kept")
    assert read_timings(tmp_path / "timings", "TIMINGS") == b"kept"
    for wrong in (tmp_path / "none", tmp_path):
        with pytest.raises(InputError, match=f"timings {wrong} that TIMINGS names: .*; unset it"):
            read_timings(wrong, "TIMINGS")
