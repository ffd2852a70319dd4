"""What is asked of read_trtexec_profile(path)."""

import json
from typing import Any

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.point import Point, point
from helpers.checks.points.s12_layer_profiling.probes import READ, Profile, ReadFile, read_file
from helpers.checks.points.s12_layer_profiling.times import agree


def _layers(case: Case, purpose: str, number: int = 6) -> list[dict[str, Any]]:
    """Return entries as trtexec writes them; average, median and sum of a layer are three different numbers."""
    random, count = case.random(purpose), 40
    entries = []
    for index in random.permutation(number):
        median, average = (float(ms) for ms in random.uniform(0.01, 0.5) * (1 + random.uniform(0, 0.2, 2)))
        entry = {"name": f"/layer{index}/Conv", "timeMs": count * average, "averageMs": average, "medianMs": median}
        entries.append({**entry, "percentage": float(random.uniform(1, 20))})
    return [{"count": count}, *entries]


def _read(case: Case, content: Any, **how: bool) -> ReadFile:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    name = f"exported profile {case.number('trtexec.name')}.json"
    return case.call(read_file, content=data, name=name, **how).require(READ)


def _times(case: Case, content: Any, **how: bool) -> Profile:
    found = _read(case, content, **how)
    if found["error"]:
        said = f"{found['error'][0]}: {found['message']}"[:160]
        raise Missed("the times of a right file", said, "run your function on a file of this form")
    return found["times"]


@point("Medians by layer, in the file's order")
def with_medians(case: Case) -> str:
    content = _layers(case, "trtexec.medians")
    content[3]["medianMs"] = 2  # JSON has whole numbers too
    right = [[entry["name"], entry["medianMs"]] for entry in content[1:]]
    for as_text in (False, True):
        said = agree(_times(case, content, as_text=as_text), right, "medianMs", "take medianMs of each entry")
    return said


@point("Averages where a file has no medians")
def averages(case: Case) -> str:
    content = _layers(case, "trtexec.averages")
    for entry in content[1:]:
        del entry["medianMs"]
    right = [[entry["name"], entry["averageMs"]] for entry in content[1:]]
    said = agree(_times(case, content), right, "averageMs", "where medianMs is missing, averageMs is there")
    mixed = _layers(case, "trtexec.mixed")
    del mixed[2]["averageMs"], mixed[3]["medianMs"]
    right = [[entry["name"], entry.get("medianMs", entry.get("averageMs"))] for entry in mixed[1:]]
    agree(
        _times(case, mixed), right, "one layer with a median alone, one with an average alone", "decide for each layer"
    )
    return said


@point("Names that come more than once are added up")
def repeated(case: Case) -> str:
    content = _layers(case, "trtexec.repeated")
    twice = {**content[2], "medianMs": 0.125, "averageMs": 0.25}
    right = [[entry["name"], entry["medianMs"] + (0.125 if entry is content[2] else 0)] for entry in content[1:]]
    return agree(_times(case, [*content, twice]), right, "a name twice", "a second entry must not replace the first")


@point("Another file is a ValueError that names the path")
def wrong_files(case: Case) -> str:
    good = _layers(case, "trtexec.wrong", 3)
    last = good[-1]
    wrong: dict[str, Any] = {
        "half a file": json.dumps(good).encode()[:-30],
        "bytes that are no text": b"\xff\xfe\x00\x81",
        "an object, not a list": {"count": 3},
        "an empty list": [],
        "a list that begins with a layer": good[1:],
        "no layers": good[:1],
        "a layer without a name": [*good, {key: last[key] for key in last if key != "name"}],
        "a layer whose name is null": [*good, {**last, "name": None}],
        "a layer without a time": [*good, {"name": "/late/Conv", "timeMs": 1.0}],
        "a time in words": [*good, {**last, "name": "/late/Conv", "medianMs": "fast"}],
        "a time that is null": [*good, {**last, "name": "/late/Conv", "medianMs": None}],
        "a list of numbers": [1, 2, 3],
    }
    for what, content in wrong.items():
        found = _read(case, content)
        if not found["error"]:
            raise Missed(f"ValueError for {what}", "no exception", "a wrong file must not pass for a profile")
        if "ValueError" not in found["error"]:
            raise Missed(f"ValueError for {what}", found["error"][0], "catch what the file can cause, raise ValueError")
        if not found["named"]:
            raise Missed(f"the path in the message for {what}", found["message"][:120], "say which file it is")
    return f"{len(wrong)} files that are none"


POINTS: tuple[Point, ...] = (with_medians, averages, repeated, wrong_files)
