"""Puts the artifacts of earlier steps in place before a step runs: the submission's if they are valid, otherwise the
reference's, so that one missed step does not sink the rest.
"""

import json
import shutil
import sys
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

import numpy as np

from helpers.checks.points.files import array_of, parsed
from helpers.checks.points.s04_int8.calibration import read_scales
from helpers.checks.probes.onnx_files import tensor_names
from helpers.course.settings import ENGINES, ONNX_FILE, PROFILE_BATCHES
from helpers.course.steps import ARTIFACTS, BY_NAME, made_by
from helpers.engine.backend import ENGINE
from helpers.tools.files import atomic_path, read_json, read_within, write_json
from helpers.tools.outputs import onnx_outputs, relative_error, shown_error
from helpers.toys.networks import EDGE
from solutions.checks.core.record import NO_SANDBOX
from solutions.checks.trusted.plans import INT8_TOLERANCE
from solutions.checks.trusted.reference import Reference, reference
from solutions.sandbox import Limits, Room, run
from solutions.sandbox.scratch import temporary
from trtcpu.errors import LabError
from trtlab.engines.served import batches_of, inferred, model_outputs

_BORROWED = ".borrowed.json"
_LIMITS = Limits(seconds=300)
_MOST_OUTPUT_BYTES = 1 << 20
_TRY = """
import sys, numpy as np
from helpers.course.artifacts import load_definition
with load_definition("TensorRTInference", sys.argv[1])(sys.argv[2]) as engine:
    images = np.load(sys.argv[3])
    np.save(sys.argv[4], np.concatenate([np.asarray(engine.infer(images[:1])), np.asarray(engine.infer(images))]))
"""


def prepare(step: str, folder: Path, *, given: Collection[str] = (), sandbox: str = "") -> list[str]:
    """Make `folder` ready for `step`; return one line per artifact that says whose it is.

    The step's own deliverables are removed first: they must come from the coming run. A missing or broken earlier
    artifact is replaced by the reference's, and the line says why. Those `given` by the caller are not changed. A
    submission's class is tried in the `sandbox` of that name; without a name, the folder belongs to our own notebooks,
    and no sandbox is used.
    """
    folder.mkdir(parents=True, exist_ok=True)
    own = {name for name, maker in ARTIFACTS.items() if maker == step}
    for name in own:
        (folder / name).unlink(missing_ok=True)
    borrowed, ours, notes = _borrowed(folder) - own, reference(), []
    for name in BY_NAME[step].needs:
        if name in given:
            continue
        fault = "missing" if name in borrowed or not (folder / name).is_file() else _fault(folder, name, ours, sandbox)
        if fault:
            with atomic_path(folder / name) as temporary:
                shutil.copyfile(ours.path(name), temporary)
            borrowed.add(name)
        notes.append(f"{name}: " + (f"the reference's, since {made_by(name)}'s is {fault}" if fault else "yours"))
    write_json(folder / _BORROWED, sorted(borrowed))
    return notes


def _borrowed(folder: Path) -> set[str]:
    try:
        return set(map(str, read_json(folder / _BORROWED)))
    except (LabError, TypeError):
        return set()


def _fault(folder: Path, name: str, ours: Reference, sandbox: str) -> str | None:
    """Return the fault of the submission's artifact in a few words, or None."""
    tests: dict[str, Callable[[Path, Reference], str | None]] = {
        ".onnx": _onnx_fault,
        ".engine": _engine_fault,
        ".py": partial(_inference_fault, sandbox=sandbox),
        ".json": _json_fault,
        ".cache": _cache_fault,
    }
    path = folder / name
    try:
        return tests[path.suffix](path, ours)
    except Exception as error:  # no file may stop the grading
        return f"unusable ({type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else 'no reason'})"


def _images(number: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((number, 3, EDGE, EDGE)).astype(np.float32)


def _differing(outputs: np.ndarray, images: np.ndarray, ours: Reference, most: float) -> str | None:
    """Return by how much outputs differ from the FP32 model's, if by more than allowed."""
    error = relative_error(outputs, onnx_outputs(ours.bytes("resnet50.onnx"), images))
    return None if error < most else f"wrong (its outputs differ by {shown_error(error)})"


def _onnx_fault(path: Path, ours: Reference) -> str | None:
    images = _images(2)
    return _differing(model_outputs(path.read_bytes(), images), images, ours, 1e-3)


def _engine_fault(path: Path, ours: Reference) -> str | None:
    images, plan = _images(1), path.read_bytes()
    least, _, largest = batches_of(plan)
    if least > PROFILE_BATCHES[0] or largest < PROFILE_BATCHES[-1]:
        return f"limited to batches {least} to {largest}"
    return _differing(inferred(plan, images), images, ours, INT8_TOLERANCE)


def _cache_fault(path: Path, ours: Reference) -> str | None:
    """Compare the tensors with those of the step's ONNX file."""
    tensors = set(tensor_names((path.parent / ONNX_FILE).read_bytes()))
    known = len(tensors & set(read_scales(path.read_bytes())))
    return None if known >= len(tensors) / 2 else f"of another network ({known} of {len(tensors)} tensors)"


def _inference_fault(path: Path, ours: Reference, sandbox: str) -> str | None:
    """Try the class on the reference engine, in its own process since it is the student's code."""
    engine, images = ours.path(ENGINES["fp32"]), _images(3)
    with temporary(_LIMITS, "trt-lab-try-") as scratch:
        shutil.copyfile(path, scratch / path.name)
        np.save(scratch / "images.npy", images)
        files = map(str, (scratch, engine, scratch / "images.npy", scratch / "outputs.npy"))
        room = Room(scratch, reads=(engine,), gpu=ENGINE == "tensorrt")
        done = run([sys.executable, "-c", _TRY, *files], room, _LIMITS, kind=sandbox or NO_SANDBOX)
        if done.ended_by or done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["it crashed without a message"]
            return f"not working ({(done.ended_by or said[-1])[:160]})"
        outputs = array_of(read_within(scratch, "outputs.npy", _MOST_OUTPUT_BYTES))
    return _differing(outputs, images[[0, 0, 1, 2]], ours, 1e-2)


def _json_fault(path: Path, ours: Reference) -> str | None:
    """Compare the rows with the reference's: the same names and batches, with numbers."""
    found, expected = parsed(path.read_bytes())["rows"], json.loads(ours.bytes(path.name))["rows"]
    there, wanted = ({(row["name"], row.get("batch")) for row in rows} for rows in (found, expected))
    if lacking := wanted - there:
        return f"incomplete (no row {min(map(str, lacking))})"
    values = [row[key] for row in found for key in row if key != "name"]
    return None if np.isfinite(np.array(values, dtype=float)).all() else "holding values that are not numbers"
