"""Model Optimizer in another Python: a stand-in package there shows what it is asked, and what its errors become."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.toys.model_optimizer import quantised_by_modelopt
from trtcpu.errors import InputError

STAND_IN = """
import json, os
import numpy as np

def quantize(source, **asked):
    if os.path.basename(source) == "refused.onnx":
        raise ValueError("no operator to quantise")
    asked["calibration_data"] = list(asked["calibration_data"].shape)
    with open(asked["output_path"], "w") as file:
        json.dump({"source": source, **asked}, file)
"""
IMAGES = np.zeros((4, 3, 8, 8), np.float32)


@pytest.fixture
def python(tmp_path: Path) -> str:
    """A Python that has a package of Model Optimizer's name and version."""
    package = tmp_path / "site" / "modelopt" / "onnx"
    package.mkdir(parents=True)
    (package / "quantization.py").write_text(STAND_IN)
    about = tmp_path / "site" / "nvidia_modelopt-0.0.7.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: nvidia-modelopt\nVersion: 0.0.7\n")
    (script := tmp_path / "python").write_text(
        f'#!/bin/sh\nPYTHONPATH="{tmp_path / "site"}" exec "{sys.executable}" "$@"\n'
    )
    script.chmod(0o755)
    return str(script)


def test_it_is_asked_for_int8_by_entropy_with_the_rest_in_fp32(python: str, tmp_path: Path) -> None:
    target = tmp_path / "quantised.onnx"
    assert quantised_by_modelopt(python, tmp_path / "model.onnx", IMAGES, target) == "0.0.7"
    asked = json.loads(target.read_text())
    assert asked["source"] == str(tmp_path / "model.onnx") and asked["calibration_data"] == [4, 3, 8, 8]
    assert (asked["quantize_mode"], asked["calibration_method"]) == ("int8", "entropy")
    assert (asked["high_precision_dtype"], asked["calibration_eps"]) == ("fp32", ["cpu"])


def test_its_error_is_named_with_what_it_needs(python: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no operator to quantise; it needs nvidia-modelopt\[onnx\]"):
        quantised_by_modelopt(python, tmp_path / "refused.onnx", IMAGES, tmp_path / "quantised.onnx")


def test_a_python_without_it_and_one_that_is_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ended without a model: ModuleNotFoundError"):
        quantised_by_modelopt(sys.executable, "model.onnx", IMAGES, tmp_path / "quantised.onnx")
    with pytest.raises(InputError, match="cannot be run: No such file"):
        quantised_by_modelopt("/nowhere/python", "model.onnx", IMAGES, tmp_path / "quantised.onnx")
