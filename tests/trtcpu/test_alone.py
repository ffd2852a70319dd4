"""Can the CPU engine be installed and used without the lab, PyTorch and Jupyter?

The packages that it asks for come from this environment by links, so that no test needs a package index.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD_AND_RUN = """
import importlib.util
import numpy as np, onnx
from onnx import TensorProto, helper
from trtcpu import cuda, tensorrt as trt

for name in ("torch", "IPython", "jupyter_core", "helpers", "trtlab", "solutions"):
    assert importlib.util.find_spec(name) is None, name
node = helper.make_node("Add", ["x", "x"], ["y"])
shapes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
model = helper.make_model(helper.make_graph([node], "doubled", shapes[:1], shapes[1:]))
logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
assert trt.OnnxParser(network, logger).parse(model.SerializeToString())
plan = builder.build_serialized_network(network, builder.create_builder_config())
context = trt.Runtime(logger).deserialize_cuda_engine(plan).create_execution_context()
given, found = np.arange(6, dtype=np.float32).reshape(2, 3), np.empty((2, 3), np.float32)
memory, stream = {name: cuda.mem_alloc(given.nbytes) for name in "xy"}, cuda.Stream()
cuda.memcpy_htod(memory["x"], given)
for name, buffer in memory.items():
    context.set_tensor_address(name, int(buffer))
assert context.execute_async_v3(stream.handle)
stream.synchronize()
cuda.memcpy_dtoh(found, memory["y"])
print(found.tolist())
"""


def _needed(name: str, found: dict[str, metadata.Distribution]) -> dict[str, metadata.Distribution]:
    """Add a distribution and all that it requires here to those `found`, by name."""
    found[name] = metadata.distribution(name)
    for line in found[name].requires or ():
        requirement = re.match(r"[\w.-]+", line)[0].lower()
        if ";" not in line and requirement not in found:
            _needed(requirement, found)
    return found


def _top_entries(distribution: metadata.Distribution) -> Iterator[Path]:
    """Yield what a distribution has directly in site-packages."""
    tops = {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}
    yield from (Path(distribution.locate_file(top)) for top in sorted(tops))


def _dependencies() -> list[str]:
    text = (ROOT / "trtcpu" / "pyproject.toml").read_text()
    return re.findall(r'^    "(.+)",$', text, re.M)


@pytest.mark.slow
def test_it_builds_and_runs_an_engine_in_an_environment_of_its_own(tmp_path: Path) -> None:
    source, wheels, environment = tmp_path / "trtcpu", tmp_path / "wheels", tmp_path / "environment"
    shutil.copytree(ROOT / "trtcpu", source, ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "wheel", *options, "--wheel-dir", wheels, source], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", *options, *wheels.iterdir()], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    needed: dict[str, metadata.Distribution] = {}
    for line in _dependencies():
        _needed(re.match(r"[\w.-]+", line)[0], needed)
    for entry in {entry for distribution in needed.values() for entry in _top_entries(distribution)}:
        (packages / entry.name).symlink_to(entry)
    command = [python, "-I", "-W", "error", "-c", BUILD_AND_RUN]  # without PYTHONPATH
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "[[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]\n"


def test_its_project_file_says_what_the_lab_s_says() -> None:
    lab = (ROOT / "pyproject.toml").read_text()
    own = (ROOT / "trtcpu" / "pyproject.toml").read_text()
    assert len(_dependencies()) == 6 and all(f'"{line}"' in lab for line in _dependencies())
    for key in ("version", "requires-python"):
        assert re.search(rf"^{key} = .*$", own, re.M)[0] in lab
    packages = set(re.findall(r'"(trtcpu[\w.]*)"', re.search(r"^packages = .*$", own, re.M)[0]))
    there = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "trtcpu").rglob("__init__.py")}
    assert packages == there
