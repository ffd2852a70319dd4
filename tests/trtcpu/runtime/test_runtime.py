"""Running a plan needs nothing of what built it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.engine.given import probe_engine
from helpers.toys.networks import tiny_onnx
from trtcpu import tensorrt as trt

ROOT = Path(__file__).resolve().parents[3]
RUN = """
import sys
from pathlib import Path
import numpy as np
from trtcpu import tensorrt as trt
from trtcpu import cuda

engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(Path(sys.argv[1]).read_bytes())
context = engine.create_execution_context()
names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
hosts = [np.ones(context.get_tensor_shape(name), np.float32) for name in names]
devices = [cuda.to_device(host) for host in hosts]
assert context.execute_v2([int(device) for device in devices])
cuda.memcpy_dtoh(hosts[1], devices[1])
np.save(sys.argv[2], hosts[1])
engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.JSON)
print(*sorted(sys.modules))
trt.Builder
print(*sorted(sys.modules))
"""


def test_a_plan_runs_without_the_builder_and_without_onnx(tmp_path: Path) -> None:
    logger = trt.Logger()
    builder = trt.Builder(logger)
    network = builder.create_network()
    assert trt.OnnxParser(network, logger).parse(tiny_onnx(0, batch=1))
    (tmp_path / "plan").write_bytes(builder.build_serialized_network(network, builder.create_builder_config()))
    command = [sys.executable, "-c", RUN, str(tmp_path / "plan"), str(tmp_path / "output.npy")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    running, building = (set(line.split()) for line in done.stdout.splitlines())
    only_to_build = {"onnx", "trtcpu.builder", "trtcpu.calibration.session"}
    assert not running & only_to_build and only_to_build <= building
    assert np.isfinite(np.load(tmp_path / "output.npy")).all()


def test_swapped_name_and_shape_are_a_type_error() -> None:
    plan = probe_engine(tiny_onnx(0), (1, 2, 2))
    engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)
    context = engine.create_execution_context()
    with pytest.raises(TypeError, match="a tensor's name is a str"):
        context.set_input_shape((2, 3, 224, 224), "input")
