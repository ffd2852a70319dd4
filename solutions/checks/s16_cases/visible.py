"""Writes the twelve cases that students get, and their sealed solutions.

    python -m solutions.checks.s16_cases.visible

Another SEED gives other cases, for another year's class.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from helpers.checks.points.s16_cases import SEALED_FILE, evidence_seals, seal
from helpers.tools.files import write_json
from helpers.toys.casefiles import CASES_FOLDER, NOTHING
from solutions.checks.s16_cases.made import made

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
        "A layer was held in FP32, and the cache has a line with a name that none of our layers has. A reviewer "
        "has stopped the release: 'This cannot be right.'",
    ),
    (
        "clock",
        "warmup_counted",
        1,
        "Since the update the mean latency is much higher, and the night before the launch a rollback is "
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

# how to write the parts of a case that have their own files; the others are in case.json
_FILES: dict[str, Callable[[Path, Any], object]] = {
    "onnx": lambda place, model: (place / "model.onnx").write_bytes(model),
    "cache": lambda place, lines: (place / "calibration.cache").write_bytes(lines),
    "calls": lambda place, calls: np.savetxt(
        place / "calls.csv", calls, "%.6f", ",", header="start_ms,enqueued_ms,finished_ms", comments=""
    ),
    "fed": lambda place, fed: np.save(place / "fed.npy", fed.astype(np.float16)),
    "scores": lambda place, scores: np.save(place / "scores.npy", scores.astype(np.float32)),
}


def write_cases(out: Path = CASES_FOLDER) -> None:
    """Write each visible case into a folder named by its number, and the sealed solutions next to them."""
    seals = {}
    for index, (department, cause, variant, story) in enumerate(DOCKET, 1):
        (material, proof), number = made(department, cause, SEED, variant), f"{index:02d}"
        (out / number).mkdir(parents=True, exist_ok=True)
        for name in _FILES.keys() & material:
            _FILES[name](out / number, material[name])
        rest = {name: value for name, value in material.items() if name not in _FILES}
        rest |= {"labels": rest["labels"].tolist()} if "labels" in rest else {}
        write_json(out / number / "case.json", {"story": story, **rest})
        evidence = {"evidence": evidence_seals(number, cause, proof)[0]} if cause != NOTHING else {}
        seals[number] = {"cause": seal(number, cause), **evidence}
    write_json(out / SEALED_FILE.name, seals)
    print(f"{len(DOCKET)} cases in {out}")


if __name__ == "__main__":
    write_cases()
