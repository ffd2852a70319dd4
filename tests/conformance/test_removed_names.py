"""What TensorRT 11 removed: each name is an AttributeError, as it is of any name that was never there."""

import pytest

from helpers.engine.backend import API, trt
from tests.conformance import models
from tests.conformance.support import ON_GPU, parsed
from trtcpu.api_changes import load_changes

pytestmark = pytest.mark.skipif(API < 11, reason=f"TensorRT {trt.__version__} has these names")
GONE = {name: change for name, change in load_changes().items() if change.gone_in == "11.0"}


def test_no_removed_name_is_there() -> None:
    found = []
    for name in GONE:
        owner, _, member = name.rpartition(".")
        try:
            owners = getattr(trt, owner) if owner else trt
        except NotImplementedError:  # a class that the CPU engine has not got
            continue
        found += [name] if hasattr(owners, member) else []
    assert found == []


@pytest.mark.skipif(ON_GPU, reason="TensorRT's own error names no replacement")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("BuilderFlag.FP16", "--precision fp16"),
        ("IInt8EntropyCalibrator2", "QuantizeLinear/DequantizeLinear"),
        ("NetworkDefinitionCreationFlag.EXPLICIT_BATCH", "builder.create_network()"),
        ("ICudaEngine.device_memory_size", "device_memory_size_v2"),
    ],
)
def test_error_names_the_version_and_the_replacement(name: str, said: str) -> None:
    owner, _, member = name.rpartition(".")
    with pytest.raises(AttributeError, match="gone since TensorRT 11.0") as error:
        getattr(getattr(trt, owner) if owner else trt, member)
    assert member in str(error.value) and said in str(error.value)


def test_removed_options_cannot_be_set() -> None:
    builder, network, parser = parsed(models.conv_relu())
    config = builder.create_builder_config()
    with pytest.raises(AttributeError, match="int8_calibrator"):
        config.int8_calibrator = None
    with pytest.raises(AttributeError, match="precision"):
        network.get_layer(0).precision = trt.float16
    with pytest.raises(AttributeError, match="set_dynamic_range"):
        network.get_input(0).set_dynamic_range(-1.0, 1.0)
