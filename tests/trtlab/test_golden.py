"""What the commands write and end with: every JSON's keys and kinds of values, and exit codes, as kept in golden.json.

`python -m tests.trtlab.test_golden` writes golden.json again; look at the difference before you commit it.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.trtlab.sample_results import PARSED, ROW, bench, write, write_folder
from tests.trtlab.shell import call
from tests.trtlab.tiny_models import SIZE, image_folder, tiny_onnx

GOLDEN = Path(__file__).with_name("golden.json")
LOGS = Path(__file__).parent / "fixtures" / "trtexec"
SHORT = ("--iterations", 3, "--warmup", 0, "--limit", 1)
VARYING = {"layer_precisions", "ran", "versions", "warnings"}
"""What holds keys or lines of this machine's."""
REFUSED = {
    "no such command": ("exprot",),
    "no such option": ("export", "--out", "m.onnx", "--modle", "resnet18"),
    "an option is missing": ("build", "--onnx", "m.onnx"),
    "no such file": ("build", "--onnx", "none.onnx", "--engine", "e.engine"),
    "no engine": ("infer", "--engine", "none.engine", "--input", "."),
    "a number that is none": ("bench", "--engine", "none.engine", "--iterations", "many"),
    "nothing to measure": ("bench",),
    "no log": ("parse-log", "--log", "none.log", "--out", "none.json"),
    "nothing measured": ("report", "--results", "."),
    "an engine that does not exist": ("run", "--engine", "gpu", "--out", "out"),
    "no such data": ("run", "--data", "flowers", "--out", "out"),
    "no stage": ("latency-budget", "--pre-ms", "1"),
    "no calibration": ("sensitivity", "--onnx", "none.onnx"),
    "no program": ("migrate", "none.py"),
}


def kinds(value: Any) -> Any:
    """Return a JSON's keys with the kinds of their values; of a list what its items have together."""
    if isinstance(value, dict):
        return {key: kinds(item) if key not in VARYING else type(item).__name__ for key, item in sorted(value.items())}
    if isinstance(value, list):
        return [_together(list(map(kinds, value)))] if value else []
    return type(value).__name__


def _together(items: list[Any]) -> Any:
    if all(isinstance(item, dict) for item in items):
        keys = sorted({key for item in items for key in item})
        return {key: _together([item[key] for item in items if key in item]) for key in keys}
    known = [item for item in items if item != "NoneType"] or items[:1]
    distinct = [item for place, item in enumerate(known) if item not in known[:place]]
    return distinct[0] if len(distinct) == 1 else sorted(distinct, key=str)


def commands(folder: Path) -> Iterator[tuple[str, tuple[Any, ...], str]]:
    """Yield a name, a command, and the JSON that it writes (below the folder)."""
    images, labelled = image_folder(folder / "images", 8), folder / "pets"
    for split in ("train", "val"):
        for label in "ab":
            image_folder(labelled / split / label, 40 if split == "train" else 4)
    (folder / "names.txt").write_text("a\nb\n" + "\n".join("cdefghij"))
    model, calib = tiny_onnx(folder), folder / "c.npy"
    fp32, int8 = folder / "fp32.engine", folder / "int8.engine"
    yield (
        "calib-data",
        ("calib-data", "--data", f"folder:{labelled}", "--out", calib, "--input-size", SIZE, "--n", 4),
        "c.npy.json",
    )
    yield "build fp32", ("build", "--onnx", model, "--engine", fp32, "--max-batch", 4), "fp32.engine.json"
    asked = ("--precision", "int8", "--calib-npy", calib, "--max-batch", 4)
    yield "build int8", ("build", "--onnx", model, "--engine", int8, *asked), "int8.engine.json"
    timed = ("bench", "--engine", fp32, "--batch-sizes", 1, 4, *SHORT, "--output")
    yield "bench", (*timed, folder / "b.json", "--log", folder / "b.log"), "b.json"
    yield "bench --streams", (*timed, folder / "s.json", "--streams", 1, 2), "s.json"
    whole = ("bench", "--engine", fp32, "--end-to-end", images, *SHORT, "--output", folder / "e.json")
    yield "bench --end-to-end", whole, "e.json"
    yield "profile", ("profile", "--engine", fp32, "--output", folder / "p.json"), "p.json"
    scored = ("--data", f"folder:{labelled}", "--classes", folder / "names.txt", "--output", folder / "a.json")
    yield "evaluate", ("evaluate", "--engine", fp32, int8, *scored), "a.json"
    yield "parse-log", ("parse-log", "--log", folder / "b.log", "--batch", 1, "--out", folder / "l.json"), "l.json"
    yield "report", ("report", "--results", write_folder(folder / "results")), "results/summary.json"
    files = write(folder / "h.json", bench(ROW)), write(folder / "w.json", PARSED)
    yield "report of files", ("report", "--results", *files, "--out", folder / "both"), "both/summary.json"


def found(folder: Path) -> dict[str, Any]:
    """Run every command; return exit codes, and the kinds of what is written."""
    (folder / "old.py").write_text("config.max_workspace_size = 1 << 30\n")
    written = {}
    for name, command, file in commands(folder):
        assert call(*command) == 0, name
        written[name] = kinds(json.loads((folder / file).read_text()))
    return {"exit codes": {name: call(*command) for name, command in REFUSED.items()}, "written": written}


def test_the_commands_write_and_end_as_they_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRT_LAB_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    assert found(tmp_path) == json.loads(GOLDEN.read_text())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        os.environ["TRT_LAB_DATA"] = f"{name}/data"
        os.chdir(name)
        GOLDEN.write_text(json.dumps(found(Path(name)), indent=1, ensure_ascii=False) + "\n")
