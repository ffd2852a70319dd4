"""Shares of known errors; the study on a network with one group that INT8 harms: it is found, kept, and goes on."""

import json
import math
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from helpers.data.datasets import load_dataset
from helpers.engine.layers import engine_layers, layer_precision
from tests.trtlab.tiny_models import image_folder, images_npy, outlier_onnx
from trtcpu.errors import EngineError, InputError
from trtlab.building.build import build_engine
from trtlab.engines.inference import InferenceEngine
from trtlab.quality import sensitivity
from trtlab.quality.sensitivity import Row, Study, rank

CLASSES = 4
CACHE = "TRT-101600-EntropyCalibration2\nimages: 3c010a14\nscores: 3d189ef9\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    outlier_onnx(folder / "m.onnx", CLASSES)
    images_npy(folder / "c.npy")
    image_folder(folder / "one" / "class0", 8)
    for label in range(CLASSES):
        image_folder(folder / "photos" / f"class{label}", 12)
    (folder / "other.cache").write_text(CACHE)
    return folder


def study(folder: Path, out: Path, images: str = "photos", **options: Any) -> Study:
    data = load_dataset(f"folder:{folder / images}", folder / "cache", progress=False)
    usual = {"calib_cache": None, "calib_npy": folder / "c.npy", "num_samples": 16, "batch_size": 8}
    usual |= {"target_loss": 100.0, "layers": False, "keep_engines": False, "report": str, "line": str}
    return Study(onnx=folder / "m.onnx", out=out, dataset=data, **usual | options)


@pytest.fixture(scope="module")
def whole(folder: Path) -> Study:
    """A study that no mix satisfies, so that it tries them all."""
    found = study(folder, folder / "whole.json", target_loss=-200.0, keep_engines=True)
    found.run()
    return found


def test_the_group_that_int8_harms_is_found_and_kept_first(whole: Study) -> None:
    worst, *others = rank(whole.rows).itertuples()
    assert worst.unit == "third" and worst.share > 60
    assert worst.keep_drift < min(each.keep_drift for each in others) / 2
    assert worst.only_drift > 2 * max(each.only_drift for each in others)
    order = list(rank(whole.rows)["unit"])
    mixes = [row for row in whole.rows.values() if row["kind"] == "mixed"]
    assert [row["groups"] for row in mixes] == [order[:count] for count in range(len(order))]
    assert mixes[1]["drift"] < mixes[0]["drift"] / 2 and whole.chosen is None


def test_each_timed_engine_has_loss_and_latency(whole: Study) -> None:
    written = json.loads(whole.out.read_text())
    assert written["complete"] and written["pareto"] == whole.pareto
    assert {point["name"] for point in whole.pareto} == {"fp32", "fp16", "int8+fp16", *(f"mixed-{n}" for n in range(5))}
    assert all(point["median_ms"] > 0 and point["batch"] == 8 for point in whole.pareto)
    assert whole.pareto[0]["loss"] == whole.rows["fp32"]["drift"] == 0
    assert len(list(whole.parts.glob("*.engine"))) == len(whole.rows)


def test_a_study_that_was_stopped_goes_on_with_what_is_missing_and_ends_with_its_json(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Study
) -> None:
    def stops(onnx: Path, engine: Path, *rest: Any) -> Any:
        if engine.stem.startswith("only"):
            raise KeyboardInterrupt
        return build_engine(onnx, engine, *rest)

    first = study(folder, tmp_path / "s.json")
    first.parts.mkdir()
    (first.parts / "images.npy").write_bytes(b"what another study left that measured nothing")
    monkeypatch.setattr(sensitivity, "build_engine", stops)
    with pytest.raises(KeyboardInterrupt):
        first.run()
    monkeypatch.undo()
    before = json.loads(first.out.read_text())
    assert not before["complete"] and not before["ranking"], "of first one engine is measured"
    assert [row["name"] for row in before["rows"]][3:] == ["keep first"]
    assert {path.stem for path in first.parts.glob("*.engine")} == {"fp32", "fp16", "int8+fp16"}
    study(folder, tmp_path / "s.json").run()
    after = json.loads(first.out.read_text())
    assert after["complete"] and after["rows"][:4] == before["rows"]
    assert [row["unit"] for row in after["ranking"]] == list(rank(whole.rows)["unit"])
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]
    with pytest.raises(InputError, match=r"s\.json is complete; choose another --out"):
        study(folder, tmp_path / "s.json")


def test_an_error_before_the_first_engine_leaves_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensitivity, "build_engine", Mock(side_effect=EngineError("out of memory")))
    with pytest.raises(EngineError):
        study(folder, tmp_path / "s.json").run()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "options, said",
    [
        ({"calib_npy": None}, "give one of --calib-cache and --calib-npy"),
        ({"calib_cache": "other.cache"}, "give one of --calib-cache and --calib-npy"),
        ({"calib_npy": "none.npy"}, "none.npy is not there; make it with"),
        ({"calib_npy": None, "calib_cache": "other.cache"}, r"other\.cache belongs to another model"),
        ({"images": "one"}, "4 outputs, .* 1 class"),
    ],
)
def test_what_cannot_be_studied_is_one_line_and_writes_nothing(
    folder: Path, tmp_path: Path, options: dict, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        study(folder, tmp_path / "new" / "s.json", **{key: name and folder / name for key, name in options.items()})
    assert not list(tmp_path.iterdir())


def test_results_of_another_study_are_not_mixed_in(folder: Path, whole: Study) -> None:
    with pytest.raises(InputError, match=r"whole\.json is of another study \(num_samples 16, now 12\)"):
        study(folder, whole.out, num_samples=12)


@pytest.mark.parametrize("content", ["{}", "[]", '{"about": [], "rows": []}', "no JSON"])
def test_a_file_that_is_no_result_is_not_written_over(folder: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / "s.json").write_text(content)
    with pytest.raises(InputError, match=r"s\.json is no"):
        study(folder, tmp_path / "s.json")
    assert (tmp_path / "s.json").read_text() == content


def test_the_command_tells_the_ranking_and_puts_the_mixed_engine_where_it_was_asked(
    trtlab, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRT_LAB_DATA", str(folder / "cache"))
    code, out, err = trtlab(
        "sensitivity", "--onnx", folder / "m.onnx", "--calib-npy", folder / "c.npy", "--num-samples", 16,
        "--data", f"folder:{folder / 'photos'}", "--target-loss", 100, "--layers", "--out", tmp_path / "s.json",
        "--engine", tmp_path / "mixed.engine",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert "sensitivity by group" in out and "sensitivity by layer" in out and "mixed-0 loses" in out
    assert {path.name for path in tmp_path.iterdir()} == {"s.json", "s.png", "mixed.engine", "mixed.engine.json"}
    with InferenceEngine(tmp_path / "mixed.engine") as engine:
        layers = {layer["Name"].split("/")[1]: layer for layer in engine_layers(engine.engine) if "/" in layer["Name"]}
    assert layer_precision(layers["third"]) == "int8" and layer_precision(layers["first"]) != "int8"


def measured(parts: dict[str, float], fp16: float) -> dict[str, Row]:
    """Return rows of networks whose groups add independent errors of these norms to FP16's."""
    total = fp16**2 + sum(part**2 for part in parts.values())
    squares = {("baseline", "fp16"): fp16**2, ("baseline", "int8+fp16"): total}
    for unit, part in parts.items():
        squares |= {("keep", unit): total - part**2, ("only", unit): fp16**2 + part**2}
    return {
        f"{kind} {unit}".removeprefix("baseline "): {"kind": kind, "unit": unit, "drift": math.sqrt(square)}
        for (kind, unit), square in squares.items()
    }


@pytest.mark.parametrize(
    "parts, fp16, shares",
    [
        ({"a": 0.03, "b": 0.06, "c": 0.02}, 0.0, {"b": 36 / 49, "a": 9 / 49, "c": 4 / 49}),
        ({"a": 0.03, "b": 0.06, "c": 0.02}, 0.02, {"b": 36 / 49, "a": 9 / 49, "c": 4 / 49}),
        ({"a": 0.0, "b": 0.0}, 0.01, {"a": 0, "b": 0}),
    ],
)
def test_shares_of_independent_errors_are_those_of_their_squares(parts: dict, fp16: float, shares: dict) -> None:
    found = rank(measured(parts, fp16))
    assert list(found["unit"]) == list(shares)
    assert list(found["share"]) == pytest.approx([100 * share for share in shares.values()])
