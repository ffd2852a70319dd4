"""Writes the twelve cases that students get, and their sealed solutions.

    python -m solutions.checks.s16_cases.visible

Another SEED gives other cases, for another year's class.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from helpers.checks.points.s16_cases import SEALED_FILE, evidence_seal, seal
from helpers.tools.files import atomic_path, atomic_write, write_json
from helpers.toys.casefiles import CASES_FOLDER, NOTHING
from solutions.checks.s16_cases.made import made
from solutions.checks.s16_cases.sealed import Sealed

SEED = 1616

DOCKET = (
    (
        "engine",
        "not_int8",
        1,
        "The INT8 engine went live on Monday. It is exactly as accurate as the FP32 engine was, which pleased "
        "everybody, and exactly as fast, which did not.",
    ),
    (
        "clock",
        "launch_time",
        0,
        "A vendor's slide promises a latency that nobody else reaches. The customer has bought the card, runs "
        "the same engine on it, and waits ten times as long for each answer.",
    ),
    (
        "engine",
        "one_scale",
        0,
        "As fast as INT8 should be, and wrong about nearly everything. Calibration was on the right pictures, "
        "the build printed no warning, and the night shift swears that nobody has touched anything.",
    ),
    (
        "scores",
        "channels_reversed",
        0,
        "In the notebook the model was good, in the service it is bad: the same file, the same pictures, "
        "nothing quantised. 'It must be the hardware', says the service.",
    ),
    (
        "engine",
        NOTHING,
        4,
        "A layer was held in FP32, and the cache has a line that no layer of ours is called like. A reviewer "
        "has stopped the release: 'This cannot be right.'",
    ),
    (
        "clock",
        "warmup_counted",
        1,
        "Since the update the mean latency is much higher, and the night before the launch a way back is "
        "being prepared. The users have noticed nothing.",
    ),
    (
        "scores",
        "late_read",
        0,
        "Every picture gets an answer, no answer is absurd, and hardly any is right. Somebody has noticed "
        "that the first batch after a start is always a strange one.",
    ),
    (
        "engine",
        "other_model",
        2,
        "The network was trained again on Friday, and the engine built again on Saturday, in half of the "
        "usual time. It is as fast as INT8, and wrong.",
    ),
    (
        "scores",
        NOTHING,
        2,
        "Top-1 is far below what was promised, and the team asks for a week to find the mistake in the measurement.",
    ),
    (
        "clock",
        "batches_counted",
        2,
        "'Batches do not pay on this machine', says the memo: 'with a batch of one we had about the same "
        "throughput.' Five people have repeated the measurement with the same script.",
    ),
    (
        "engine",
        "not_normalised",
        0,
        "Calibration went through without a complaint, on the right pictures, as many as the book says. The "
        "answers are poor by day and poor by night.",
    ),
    (
        "scores",
        "top5_for_top1",
        1,
        "The best accuracy that the company has ever published. The posters are printed. Then a customer counted.",
    ),
)
"""Department, cause, which case of that cause, and story of each, in the order of their numbers."""

_FORMATS = {"onnx": "model.onnx", "cache": "calibration.cache"}
_HEADER = "start_ms,enqueued_ms,finished_ms\n"


def write_cases(folder: Path) -> None:
    """Write each case into a folder of its number, and beside them the sealed solutions."""
    seals = {}
    for index, (department, cause, variant, story) in enumerate(DOCKET):
        sealed, number = made(department, cause, SEED, variant), f"{index + 1:02d}"
        _write(folder / number, sealed, story)
        seals[number] = _sealed(number, sealed)
    write_json(folder / SEALED_FILE.name, seals)


def _sealed(number: str, sealed: Sealed) -> dict[str, str]:
    evidence = {} if sealed.cause == NOTHING else {"evidence": evidence_seal(number, sealed.cause, sealed.evidence)}
    return {"cause": seal(number, sealed.cause), **evidence}


def _write(place: Path, sealed: Sealed, story: str) -> None:
    place.mkdir(parents=True, exist_ok=True)
    material = dict(sealed.material)
    for name, file in _FORMATS.items():
        if name in material:
            atomic_write(place / file, material.pop(name))
    if "calls" in material:
        rows = "".join(",".join(f"{stamp:.6f}" for stamp in row) + "\n" for row in material.pop("calls"))
        atomic_write(place / "calls.csv", _HEADER + rows)
    for name, kind in (("fed", np.float16), ("scores", np.float32)):
        if name in material:
            _write_array(place / f"{name}.npy", material.pop(name).astype(kind))
    if "labels" in material:
        material["labels"] = material["labels"].tolist()
    write_json(place / "case.json", {"story": story, **material})


def _write_array(path: Path, values: np.ndarray) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.save(file, values)


def main(
    out: Annotated[Path, typer.Option(help="The folder of the cases.")] = CASES_FOLDER,
) -> None:
    """Write the visible cases and their sealed solutions."""
    write_cases(out)
    print(f"{len(DOCKET)} cases in {out}")


if __name__ == "__main__":
    typer.run(main)
