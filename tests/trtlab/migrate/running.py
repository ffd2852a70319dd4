"""Runs migrated samples on the CPU engine; also as a process of its own, for the API of TensorRT 11.

    TRT_LAB_API=11 python -m tests.trtlab.migrate.running FOLDER

FOLDER holds trt7_infer.py, trt8_build.py and trt8_infer.py, model.onnx (dynamic batch) and images.npy; outputs.npz is
written there.
"""

import importlib.util
import sys
import warnings
from pathlib import Path
from types import ModuleType
from unittest import mock

import numpy as np

from helpers.engine.backend import cuda, trt

_PYCUDA = ModuleType("pycuda")


def load(path: Path) -> ModuleType:
    """Import a sample with this machine's engine as its tensorrt and its pycuda."""
    modules = {"tensorrt": trt, "pycuda": _PYCUDA, "pycuda.driver": cuda, "pycuda.autoinit": ModuleType("autoinit")}
    _PYCUDA.driver = cuda
    with mock.patch.dict(sys.modules, modules):
        spec = importlib.util.spec_from_file_location(f"migrated_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def outputs(folder: Path) -> dict[str, np.ndarray]:
    """Return what the migrated samples answer for images.npy, by sample."""
    images = np.load(folder / "images.npy")
    builder = load(folder / "trt8_build.py").EngineBuilder(largest=len(images))
    engine = builder.build(folder / "model.onnx")
    sample = load(folder / "trt8_infer.py")
    inference = sample.Inference(engine)
    assert inference.largest() == images.shape
    assert [line.split()[0] for line in sample.describe(engine)] == ["input", "output"]
    found = {"trt8_infer": inference(images)}
    fixed = load(folder / "trt7_infer.py")
    (answer,) = fixed.infer((folder / "fixed.plan").read_bytes(), images[:1]).values()
    return {**found, "trt7_infer": answer}


def fixed_plan(onnx_path: Path) -> bytes:
    """Return a plan of a model without dynamic shapes."""
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network()
    parser = trt.OnnxParser(network, logger)
    assert parser.parse(onnx_path.read_bytes())
    return bytes(builder.build_serialized_network(network, builder.create_builder_config()))


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)
    work = Path(sys.argv[1])
    (work / "fixed.plan").write_bytes(fixed_plan(work / "fixed.onnx"))
    np.savez(work / "outputs.npz", version=trt.__version__, **outputs(work))
