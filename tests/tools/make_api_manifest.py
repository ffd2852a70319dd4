"""Make the manifests in trtcpu/api from the docstrings of TensorRT's Python bindings.

    python tests/tools/make_api_manifest.py [--download DIR] [--check]

manifest.json has TensorRT 10.16's names and which of them 8.6 and 11 lack, manifest-11.json what 11 added or changed.
The bindings' wheels are small and need NVIDIA's libraries only to run networks. This script downloads the wheels of
three TensorRT lines, puts empty stand-ins for those libraries beside them (it needs gcc, readelf and nm), imports each
extension module in a process of its own and reads names, enum members and pybind11's signatures. It also says which of
the names that are gone trtcpu/api_changes.json does not explain. Python 3.11 on x86-64 Linux.
"""

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "trtcpu" / "api"
CHANGES = ROOT / "trtcpu" / "api_changes.json"
WHEELS = {
    "10.16": "tensorrt-cu13-bindings==10.16.1.11",
    "8.6": "tensorrt-bindings==8.6.1",
    "11": "tensorrt-cu13-bindings==11.4.0.106",
}
_INTERFACES = ("IOutputAllocator", "IPluginCreator")  # written by users: their methods are called, not offered
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
    names = copy.deepcopy(lines["10.16"])
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


def changed(lines: dict[str, dict[str, Any]], line: str) -> dict[str, Any]:
    """Return what `line` has that TensorRT 10.16 has not, or has otherwise: described for the surface, else names."""
    old, new = lines["10.16"], lines[line]
    surface = {}
    for name in sorted(set(SURFACE) & set(new)):
        before, after = old[name].get("members", {}), new[name].get("members", {})
        entry = {key: what for key, what in new[name].items() if key != "members" and what != old[name][key]}
        if members := {key: what for key, what in after.items() if what != before.get(key)}:
            entry["members"] = members
        if entry:
            surface[name] = entry
    return {"surface": surface, "outside": sorted(set(new) - set(old))}


def unexplained(lines: dict[str, dict[str, Any]], explained: set[str]) -> list[str]:
    """Return the names that a line lacks of the one before it, and that are not among `explained`.

    Members that all layers lost are ILayer's, and what an interface's Python class inherits differently is no change.
    """
    found = []
    for before, after in (("8.6", "10.16"), ("10.16", "11")):
        old, new = lines[before], lines[after]
        layers = set(old["ILayer"]["members"]) - set(new["ILayer"]["members"])
        for name, entry in old.items():
            members = set(entry.get("members", ())) - set(new.get(name, {}).get("members", ()))
            members -= layers if name != "ILayer" else set()
            found += [name] if name not in new else [f"{name}.{member}" for member in members]
    return sorted(name for name in set(found) - explained if name.split(".")[0] not in _INTERFACES)


def main() -> None:
    """Read the three wheels and write the manifests, or compare them with what is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--download", type=Path, help="folder to keep the wheels in; a temporary one by default")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a file is not what was read")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        base = options.download or Path(temporary)
        lines = {line: read_line(requirement, base / line) for line, requirement in WHEELS.items()}
    stale = []
    for file, content in (("manifest.json", assemble(lines)), ("manifest-11.json", changed(lines, "11"))):
        text = json.dumps(content, indent=1, sort_keys=True) + "\n"
        if options.check and text != (FOLDER / file).read_text():
            stale.append(f"{FOLDER / file} is not what the bindings say; run this without --check")
        elif not options.check:
            (FOLDER / file).write_text(text)
            print(f"wrote {FOLDER / file}")
    names = {row["name"] for row in json.loads(CHANGES.read_text())}
    stale += [f"{name} is gone, and {CHANGES} does not say so" for name in unexplained(lines, names)]
    sys.exit("\n".join(stale) or 0)


if __name__ == "__main__":
    main()
