"""Make helpers/cpu_engine/api/manifest.json from the docstrings of TensorRT's Python bindings.

    python tests/tools/make_api_manifest.py [--download DIR]

The bindings' wheels are small and need NVIDIA's libraries only to run networks. This script downloads the wheels of
three TensorRT lines, puts empty stand-ins for those libraries beside them (it needs gcc, readelf and nm), imports each
extension module in a process of its own and reads names, enum members and pybind11's signatures. Python 3.11 on x86-64
Linux.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "helpers" / "cpu_engine" / "api" / "manifest.json"
WHEELS = {
    "10.16": "tensorrt-cu13-bindings==10.16.1.11",
    "8.6": "tensorrt-bindings==8.6.1",
    "11": "tensorrt-cu13-bindings==11.4.0.106",
}
SURFACE = """
Builder BuilderFlag CalibrationAlgoType DataType DeviceType Dims Dims2 Dims3 Dims4 EngineCapability EngineInspector
EngineStat ErrorCode ExecutionContextAllocationStrategy HardwareCompatibilityLevel IBuilderConfig ICudaEngine
IExecutionContext IHostMemory IInt8Calibrator IInt8EntropyCalibrator IInt8EntropyCalibrator2 IInt8LegacyCalibrator
IInt8MinMaxCalibrator ILayer ILogger INetworkDefinition IOptimizationProfile IProfiler ITensor ITimingCache
LayerInformationFormat LayerType Logger MemoryPoolType NetworkDefinitionCreationFlag OnnxParser OnnxParserFlag
ParserError Permutation PreviewFeature Profiler ProfilingVerbosity QuantizationFlag Runtime TacticSource TensorFormat
TensorIOMode TensorLocation TempfileControlFlag Weights init_libnvinfer_plugins nptype volume get_nv_onnx_parser_version
bfloat16 bool float16 float32 fp4 fp8 int32 int4 int64 int8 uint8
""".split()


def stub_libraries(extension: Path, folder: Path) -> None:
    """Write empty stand-ins for NVIDIA's libraries that `extension` is linked with into `folder`."""
    folder.mkdir()
    dynamic = subprocess.run(["readelf", "-d", extension], capture_output=True, text=True, check=True).stdout
    needed = [line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "NEEDED" in line and "libnv" in line]
    symbols = subprocess.run(["nm", "-D", "--undefined-only", extension], capture_output=True, text=True, check=True)
    fields = [line.split() for line in symbols.stdout.splitlines()]
    known = ("Py", "_Py", "dl")
    names = [name for kind, name in fields if kind == "U" and "@" not in name and not name.startswith(known)]
    code = "".join(f"void *{name}(void) {{ return 0; }}\n" for name in names)
    for index, name in enumerate(needed):
        command = ["gcc", "-shared", "-fPIC", "-o", folder / name, f"-Wl,-soname,{name}", "-x", "c", "-"]
        subprocess.run(command, input="" if index else code, text=True, check=True)


def read_line(requirement: str, folder: Path) -> dict[str, Any]:
    """Download the wheel of `requirement` into `folder` and return what its extension module offers."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, requirement]
    subprocess.run(command, check=True)
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    extension = next(folder.glob("*/tensorrt.so"))
    stub_libraries(extension, folder / "stubs")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder / "stubs")}
    reader = [sys.executable, Path(__file__).with_name("read_bindings.py"), extension]
    result = subprocess.run(reader, capture_output=True, text=True, check=True, env=environment)
    return json.loads(result.stdout)


def lacking(name: str, member: str | None, lines: dict[str, dict[str, Any]]) -> list[str]:
    """Return the other TensorRT lines that lack `name`, or its `member`."""
    others = {line: names for line, names in lines.items() if line != "10.16"}
    if member is None:
        return [line for line, names in others.items() if name not in names]
    return [line for line, names in others.items() if member not in names.get(name, {}).get("members", {})]


def assemble(lines: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the manifest: TensorRT 10.16's names, each with the lines that lack it."""
    names = lines["10.16"]
    unknown = sorted(set(SURFACE) - set(names))
    if unknown:
        raise SystemExit(f"not in the bindings of TensorRT 10.16: {', '.join(unknown)}")
    surface = {}
    for name in sorted(SURFACE):
        entry = names[name] | ({"lacks": lacks} if (lacks := lacking(name, None, lines)) else {})
        for member, what in entry.get("members", {}).items():
            if lacks := lacking(name, member, lines):
                what["lacks"] = lacks
        surface[name] = entry
    outside = {name: lacking(name, None, lines) for name in sorted(set(names) - set(SURFACE))}
    return {"wheels": WHEELS, "surface": surface, "outside": outside}


def main() -> None:
    """Read the three wheels and write the manifest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--download", type=Path, help="folder to keep the wheels in; a temporary one by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        base = options.download or Path(temporary)
        lines = {line: read_line(requirement, base / line) for line, requirement in WHEELS.items()}
    OUTPUT.write_text(json.dumps(assemble(lines), indent=1, sort_keys=True) + "\n")
    print(f"wrote {OUTPUT}")


if __name__ == "__main__":
    main()
