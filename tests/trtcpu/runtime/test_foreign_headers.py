"""Plans whose header was changed and sealed again: refused with a logged reason, or an engine that can be looked at."""

import copy
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.engine.given import probe_engine
from helpers.toys.networks import tiny_onnx
from tests.others.engine import Log
from trtcpu import tensorrt as trt
from trtcpu.builder.config import ITimingCache
from trtcpu.plan import seal, unseal

MAGIC, CACHE_MAGIC = b"TRTCPUPL", b"TRTCPUTC"
Path = tuple[str | int, ...]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["input", "HALF"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@lru_cache(maxsize=1)
def _sealed() -> tuple[dict[str, Any], bytes]:
    """Return the header and the compiled model of a good plan."""
    return unseal(MAGIC, bytes(probe_engine(tiny_onnx(0, image=(3, 16, 16)), (1, 2, 4))))


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from _paths(child, (*path, key))


def _changed(path: Path, value: Any) -> Any:
    header = copy.deepcopy(_sealed()[0])
    if not path:
        return value
    place = header
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return header


def _deserialized(header: Any) -> tuple[trt.ICudaEngine | None, list[str]]:
    logger = Log()
    engine = trt.Runtime(logger).deserialize_cuda_engine(seal(MAGIC, header, _sealed()[1]))
    return engine, logger.errors


def _look_at(engine: trt.ICudaEngine) -> None:
    """Ask for all that an engine and a context tell without running."""
    context = engine.create_execution_context()
    for name in map(engine.get_tensor_name, range(engine.num_io_tensors)):
        assert len(engine.get_tensor_shape(name)) and engine.get_tensor_dtype(name).itemsize
        if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
            assert context.set_input_shape(name, tuple(engine.get_tensor_profile_shape(name, 0)[1]))
        else:
            assert context.get_max_output_size(name) >= -1
    inspector = engine.create_engine_inspector()
    assert json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON))["Bindings"]
    assert "Bindings:" in inspector.get_engine_information(trt.LayerInformationFormat.ONELINE)
    assert engine.num_layers and engine.profiling_verbosity in trt.ProfilingVerbosity.__members__.values()


@given(data=st.data(), value=JSON)
@settings(max_examples=300)
def test_any_field_changed_to_anything_is_refused_with_a_reason_or_harmless(data: st.DataObject, value: Any) -> None:
    path = data.draw(st.sampled_from(list(_paths(_sealed()[0]))))
    engine, errors = _deserialized(_changed(path, value))
    if engine is None:
        assert len(errors) == 1 and "build it again" in errors[0]
    else:
        _look_at(engine)


@pytest.mark.parametrize("field", sorted(_sealed()[0]))
def test_a_header_without_a_field_is_refused(field: str) -> None:
    header = {name: value for name, value in _sealed()[0].items() if name != field}
    engine, errors = _deserialized(header)
    assert engine is None and len(errors) == 1


@pytest.mark.parametrize(
    "path, value, reason",
    [
        (("hint",), "f64", "hint must be one of ['f32', 'f16', 'bf16'], found 'f64'"),
        (("bindings", 0, "dtype"), "DOUBLE", "bindings[0].dtype must be one of ['FLOAT', "),
        (("profiles", 0), {}, "expected the shapes of ['input']"),
        (("bindings", 0, "dtype"), "HALF", "input 'input': HALF in the header, f32 in the model"),
        (("bindings", 1, "name"), "other", "output 'other': it has none of that name"),
        (("bindings", 1, "shape"), [["input", 1], 10], "expected sizes, -1 or an input's [name, axis]"),
        (("bindings", 1, "shape"), [["input", 0]], "output 'output': 1 dimensions in the header, 2 in the model"),
        (("profiles", 0, "input", 2, 0), 5, "a profile in the header is wider than the model"),
        (("profiles", 0, "input", 0, 0), 3, "expected [min, opt, max] in order"),
        (("platform",), [], "does not say which engine it was built by"),
    ],
)
def test_the_reason_names_the_field_and_what_was_found(path: Path, value: Any, reason: str) -> None:
    engine, errors = _deserialized(_changed(path, value))
    assert engine is None and reason in errors[0]


def test_the_size_of_an_output_whose_shape_the_header_leaves_open_is_unknown() -> None:
    engine, _ = _deserialized(_changed(("bindings", 1, "shape"), []))
    assert engine is not None and engine.create_execution_context().get_max_output_size("output") == -1


@pytest.mark.parametrize("header", [None, [], 1, "x", {}])
def test_a_header_that_is_no_description_is_refused(header: Any) -> None:
    engine, errors = _deserialized(header)
    assert engine is None and len(errors) == 1


@pytest.mark.parametrize(
    "index",
    [[], {}, {"platform": "x", "sizes": []}, {"platform": 1, "sizes": {}}, {"platform": "x", "sizes": {"k": -1}}],
)
def test_a_timing_cache_sealed_around_nonsense_is_no_timing_cache(index: Any) -> None:
    assert ITimingCache.parse(seal(CACHE_MAGIC, index, b"model")) is None
