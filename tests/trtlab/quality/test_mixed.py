"""The study on a network with one group that INT8 harms: it is found, kept, and a stopped study goes on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from helpers.data.datasets import load_dataset
from helpers.engine.layers import engine_layers, layer_precision
from tests.trtlab.tiny_models import image_folder, images_npy, outlier_onnx
from trtcpu.errors import InputError
from trtlab.engines.inference import InferenceEngine
from trtlab.quality import mixed
from trtlab.quality.mixed import Study, StudyOptions

CLASSES = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    outlier_onnx(folder / "m.onnx", CLASSES)
    images_npy(folder / "c.npy")
    for index in range(12 * CLASSES):
        place = folder / "photos" / f"class{index % CLASSES}"
        place.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(index).integers(0, 256, (40, 40, 3), np.uint8)
        Image.fromarray(pixels).save(place / f"{index:02}.png")
    return folder


def study(folder: Path, out: Path, **options: Any) -> Study:
    data = f"folder:{folder / 'photos'}"
    asked = {
        "num_samples": 16,
        "calib_npy": folder / "c.npy",
        "iterations": 2,
        "warmup_ms": 1,
        "target_loss": 100.0,
        **options,
    }
    wanted = StudyOptions(folder / "m.onnx", out, data, **asked)
    return Study(wanted, load_dataset(data, folder / "cache", progress=False), lambda text: None, lambda text: None)


@pytest.fixture(scope="module")
def whole(folder: Path) -> Study:
    """A study that no mix satisfies, so that it tries them all."""
    found = study(folder, folder / "whole.json", target_loss=-200.0)
    found.run()
    return found


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The engines that are built, by name."""
    names: list[str] = []

    def recording(onnx: Path, path: Path, *rest: Any) -> Any:
        names.append(path.stem)
        return build(onnx, path, *rest)

    build: Callable = mixed.build_engine
    monkeypatch.setattr(mixed, "build_engine", recording)
    return names


def test_the_group_that_int8_harms_is_found(whole: Study) -> None:
    worst, *others = whole.ranking()
    assert worst.unit == "third" and worst.share > 60
    assert worst.keep_drift < min(each.keep_drift for each in others) / 2
    assert worst.only_drift > 2 * max(each.only_drift for each in others)


def test_mixes_keep_the_most_sensitive_groups_first(whole: Study) -> None:
    order = [each.unit for each in whole.ranking()]
    mixes = [row for row in whole.rows.values() if row.kind == "mixed"]
    assert [row.groups for row in mixes] == [order[:count] for count in range(len(order))]
    assert mixes[1].drift < mixes[0].drift / 2 and whole.chosen is None


def test_each_timed_engine_has_loss_and_latency(whole: Study) -> None:
    written = json.loads((whole.options.out).read_text())
    assert written["complete"] and written["pareto"] == whole.pareto
    assert {point["name"] for point in whole.pareto} == {"fp32", "fp16", "int8+fp16", *(f"mixed-{n}" for n in range(5))}
    assert all(point["median_ms"] > 0 and point["batch"] == 8 for point in whole.pareto)
    reference = next(point for point in whole.pareto if point["name"] == "fp32")
    assert reference["loss"] == 0 and whole.rows["fp32"].drift == 0


def test_only_the_engines_that_are_timed_are_kept_until_the_end(whole: Study) -> None:
    kept = {path.stem for path in whole.parts.glob("*.engine")}
    assert kept == {point["name"] for point in whole.pareto}


def test_a_study_that_was_stopped_goes_on_with_what_is_missing(
    folder: Path, tmp_path: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch, whole: Study
) -> None:
    first = study(folder, tmp_path / "s.json")
    measure = first._row
    monkeypatch.setattr(first, "_row", lambda *of: stop() if len(first.rows) == 5 else measure(*of))

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        first.run()
    before = json.loads((tmp_path / "s.json").read_text())
    assert not before["complete"] and len(before["rows"]) == 5
    done = set(builds[:5])
    builds.clear()
    second = study(folder, tmp_path / "s.json")
    second.run()
    assert not done & set(builds) and len(builds) == 13 - 5 + 1
    assert [row.to_dict() for row in second.rows.values()][:5] == before["rows"]
    assert [each.unit for each in second.ranking()] == [each.unit for each in whole.ranking()]
    second.finish(None)
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]


@pytest.mark.parametrize(
    "options, said",
    [
        ({"calib_npy": None}, "give one of --calib-cache and --calib-npy"),
        ({"calib_cache": Path("c.cache")}, "give one of --calib-cache and --calib-npy"),
        ({"calib_npy": Path("none.npy")}, "none.npy is not there; make it with"),
    ],
)
def test_what_cannot_be_studied_is_one_line(folder: Path, tmp_path: Path, options: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        study(folder, tmp_path / "s.json", **options)
    assert not list(tmp_path.iterdir())


def test_a_cache_of_another_model_is_refused_before_anything_is_built(
    folder: Path, tmp_path: Path, builds: list[str]
) -> None:
    (tmp_path / "other.cache").write_text("TRT-101600-EntropyCalibration2\nimages: 3c010a14\nscores: 3d189ef9\n")
    with pytest.raises(InputError, match=r"other\.cache belongs to another model"):
        study(folder, tmp_path / "s.json", calib_npy=None, calib_cache=tmp_path / "other.cache")
    assert builds == [] and len(list(tmp_path.iterdir())) == 1


def test_results_of_another_study_are_not_mixed_in(folder: Path, whole: Study) -> None:
    with pytest.raises(InputError, match=r"whole\.json is of another study \(num_samples 16, now 12\)"):
        study(folder, folder / "whole.json", num_samples=12)


@pytest.mark.parametrize("content", ["{}", "[]", '{"about": {}, "rows": [{"name": "fp32"}]}', "no JSON"])
def test_a_file_that_is_no_result_is_not_written_over(folder: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / "s.json").write_text(content)
    with pytest.raises(InputError, match=r"s\.json is no"):
        study(folder, tmp_path / "s.json")
    assert (tmp_path / "s.json").read_text() == content


def test_an_error_before_the_first_engine_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    image_folder(folder / "one" / "class0", 8)
    options = StudyOptions(folder / "m.onnx", tmp_path / "new" / "s.json", "one", calib_npy=folder / "c.npy")
    one = load_dataset(f"folder:{folder / 'one'}", folder / "cache", progress=False)
    with pytest.raises(InputError, match="4 outputs, .* 1 class"):
        Study(options, one, lambda text: None, lambda text: None).run()
    assert not list(tmp_path.iterdir())


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
