"""NVIDIA's Polygraphy, as it is on the package index, on the CPU engine: its commands end well and say PASSED.

python -m tests.others.polygraphy --page docs/polygraphy.md

Two releases are installed, each in a folder of its own, from the package index.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

from helpers.toys.networks import tiny_onnx
from trtcpu.builder.quantization import explicit

RELEASES = ("0.49.26", "")
"""The last one of 2025, and the newest."""
IMAGE = (3, 16, 16)
DYNAMIC = "--trt-min-shapes input:[1,3,16,16] --trt-opt-shapes input:[2,3,16,16] --trt-max-shapes input:[4,3,16,16]"
BOTH = "--trt --onnxrt"


class Case(NamedTuple):
    """A command, and what its output must hold."""

    what: str
    command: str
    says: str = "PASSED"


CASES = (
    Case("FP32 against ONNX Runtime", f"run fixed.onnx {BOTH} --atol 1e-4"),
    Case("FP16 against ONNX Runtime", f"run fixed.onnx {BOTH} --fp16 --atol 0.1"),
    Case("INT8, calibrated on drawn data", f"run fixed.onnx {BOTH} --int8 --calibration-cache fixed.cache --atol 0.5"),
    Case("INT8 from that cache", f"run fixed.onnx {BOTH} --int8 --calibration-cache fixed.cache --atol 0.5"),
    Case("dynamic shapes", f"run dynamic.onnx {BOTH} {DYNAMIC} --input-shapes input:[3,3,16,16] --atol 1e-4"),
    Case("Q/DQ", f"run quantised.onnx {BOTH} --int8 --atol 0.5"),
    Case("external data", f"run outside.onnx {BOTH} --atol 1e-4"),
    Case(
        "all tensors marked as outputs",
        f"run fixed.onnx {BOTH} --trt-outputs mark all --onnx-outputs mark all --atol 1e-4",
    ),
    Case("a strongly typed network", f"run fixed.onnx {BOTH} --strongly-typed --atol 1e-4"),
    Case("many inferences", "run fixed.onnx --trt --iterations 10"),
    Case("an engine written", "convert fixed.onnx -o fixed.engine", ""),
    Case("that engine run", "run fixed.engine --trt --model-type engine --iterations 2"),
    Case("that engine inspected", "inspect model fixed.engine --show layers", "Layer"),
    Case("the network inspected", "inspect model fixed.onnx --display-as trt --show layers", "Layer"),
    Case("what of a model is supported", "inspect capability fixed.onnx", ""),
    Case("a script that Polygraphy writes", f"run fixed.onnx {BOTH} --atol 1e-4 --gen-script made.py", ""),
)


def write_models(folder: Path) -> None:
    """Write the models that the commands name."""
    fixed = onnx.load_from_string(tiny_onnx(0, batch=1, image=IMAGE))
    onnx.save(fixed, folder / "fixed.onnx")
    (folder / "dynamic.onnx").write_bytes(tiny_onnx(0, image=IMAGE))
    scales = {"input": 4 / 127, **{name: 4 / 127 for node in fixed.graph.node for name in node.output}}
    onnx.save(explicit(fixed, scales)[0], folder / "quantised.onnx")
    outside = onnx.load_from_string(fixed.SerializeToString())
    for tensor in outside.graph.initializer:  # only raw data can lie outside
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(numpy_helper.to_array(tensor)), tensor.name))
    onnx.save(outside, folder / "outside.onnx", save_as_external_data=True, location="outside.data", size_threshold=0)


def install(release: str, folder: Path) -> str:
    """Install a release of Polygraphy, the newest for "", and return its version."""
    wanted = f"polygraphy=={release}" if release else "polygraphy"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]
    subprocess.run([*pip, "--target", folder, wanted], check=True)
    (found,) = folder.glob("polygraphy-*.dist-info")
    return found.name.removeprefix("polygraphy-").removesuffix(".dist-info")


def tried(case: Case, packages: Path, models: Path) -> str:
    """Run a command; return what went wrong, or nothing."""
    script = [packages / "bin" / "polygraphy", *case.command.split()]
    done = subprocess.run(
        [sys.executable, "-m", "trtcpu", *script],
        cwd=models,
        env={**os.environ, "PYTHONPATH": f"{packages}:{Path.cwd()}"},
        capture_output=True,
        text=True,
    )
    output = re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)
    if done.returncode == 0 and case.says in output and "Traceback" not in output:
        return ""
    return f"exit status {done.returncode}: " + " / ".join(output.strip().splitlines()[-6:])


def page(found: dict[str, list[str]]) -> Iterator[str]:
    """Give the lines of the page: what ran with every release, by command, and what did not."""
    yield "# Polygraphy on the CPU engine"
    yield ""
    yield f"<!-- made by make polygraphy --> Unmodified releases of Polygraphy, {' and '.join(found)}, run by"
    yield "`python -m trtcpu`. These commands ended well; tests/others/polygraphy.py has their options."
    yield ""
    ended: dict[str, list[str]] = {}
    for index, case in enumerate(CASES):
        wrong = [version for version, problems in found.items() if problems[index]]
        text = case.what + (f" (**wrong** with {' and '.join(wrong)})" if wrong else "")
        ended.setdefault(re.match(r"(run|inspect \w+|\w+)", case.command)[1], []).append(text)
    for command, texts in ended.items():
        yield from textwrap.wrap(f"- `polygraphy {command}`: {'; '.join(texts)}", 130, subsequent_indent="  ")


def main() -> int:
    """Run every command with every release; write the page. Exit with 1 where one fails."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--page", type=Path)
    arguments = options.parse_args()
    found: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for index, release in enumerate(RELEASES):
            packages, models = Path(scratch) / f"packages{index}", Path(scratch) / f"models{index}"
            models.mkdir()
            write_models(models)
            version = install(release, packages)
            found[version] = [tried(case, packages, models) for case in CASES]
            for case, problem in zip(CASES, found[version], strict=True):
                print(f"{version}: {case.what}: {problem or 'right'}")
    if arguments.page:
        arguments.page.write_text("\n".join(page(found)) + "\n")
    return int(any(map(any, found.values())))


if __name__ == "__main__":
    sys.exit(main())
