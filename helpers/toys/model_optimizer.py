"""Has NVIDIA's Model Optimizer quantise an ONNX file, under another Python that has it.

    quantised_by_modelopt("/opt/modelopt/bin/python", "model.onnx", images, "model.qdq.onnx")

`nvidia-modelopt[onnx]` pins versions of its own of what the lab uses too (onnx, onnxruntime), hence an environment of
its own: TRT_LAB_MODELOPT_PYTHON names its Python. Nothing else of the lab is needed there.
"""

import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from trtcpu.errors import InputError

VARIABLE = "TRT_LAB_MODELOPT_PYTHON"
_SECONDS = 900
_QUANTISE = """
import sys
from importlib.metadata import version
import numpy as np
from modelopt.onnx.quantization import quantize

source, images, target = sys.argv[1:]
quantize(source, quantize_mode="int8", calibration_data=np.load(images), calibration_method="entropy",
         calibration_eps=["cpu"], high_precision_dtype="fp32", output_path=target)
print(version("nvidia-modelopt"))
"""


def quantised_by_modelopt(python: str, onnx_path: str | Path, images: np.ndarray, target: str | Path) -> str:
    """Write the INT8 model of an ONNX file to `target`, calibrated on images; return Model Optimizer's version.

    Args:
        python: the program, by its name or path.
        onnx_path: the float model.
        images: float32 [N, 3, H, W].
        target: where the model with Q/DQ nodes goes.

    Raises:
        InputError: there is no such program, or it ends with an error or without a model, which the message names.
    """
    with tempfile.TemporaryDirectory() as name:
        calibration = Path(name) / "images.npy"
        np.save(calibration, images)
        command = [python, "-c", _QUANTISE, *map(str, (Path(onnx_path).resolve(), calibration, Path(target).resolve()))]
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONHOME", "PYTHONPATH")}
        try:
            done = subprocess.run(command, env=environment, cwd=name, capture_output=True, text=True, timeout=_SECONDS)
        except OSError as error:
            raise InputError(f"{VARIABLE}={python!r} cannot be run: {error.strerror}; name a Python program") from error
        except subprocess.TimeoutExpired as error:
            raise InputError(f"{VARIABLE}={python!r} was still at it after {_SECONDS} s") from error
    said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
    if done.returncode or not Path(target).is_file():
        raise InputError(f"{VARIABLE}={python!r} ended without a model: {said}; it needs nvidia-modelopt[onnx]")
    return done.stdout.strip().splitlines()[-1]
