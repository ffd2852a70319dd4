"""Several sources side by side: one device is at home, no other shares a headline or a speed-up. Made-up numbers."""

import json

import pytest

from tests.trtlab.report.test_files import PARSED, ROW, bench, write
from tests.trtlab.sample_results import ENGINE, at, write_folder
from trtcpu.errors import InputError
from trtlab.report.findings import findings, headline
from trtlab.report.sources import load_sources
from trtlab.report.table import plain

GPU = {"name": "tensorrt", "version": "10.16", "device": "TensorRT 10.16, NVIDIA TEST"}
FAST = {**ROW, "name": "int8", "median_ms": 0.1, "mean_ms": 0.1, "images_per_s": 80000.0}
BASE = {**ROW, "name": "pytorch-fp32", "median_ms": 10.0, "mean_ms": 10.0, "images_per_s": 800.0}


def on_gpu(*rows, device=GPU["device"]):
    return {"engine": {**GPU, "device": device}, "rows": list(rows)}


def speedups(results):
    """The speed-up of each row, by its title."""
    return {row["title"]: row["speedup"] for row in plain(results.rows)}


def test_one_source_is_read_as_it_is(tmp_path):
    folder = write_folder(tmp_path / "run")
    assert load_sources([folder]).found == load_sources([str(folder)]).found
    assert "sources" not in load_sources([folder]).settings


def test_parsed_logs_of_one_device_are_one_set_of_rows(tmp_path):
    told = {"fp16_8": {}, "fp16_1": {"batch": 1, "images_per_s": 490.0}, "int8_8": {"precision": "int8"}}
    paths = [write(tmp_path / f"{name}.json", {**PARSED, **parts}) for name, parts in told.items()]
    results = load_sources(paths)
    assert [(row.engine, row.batch) for row in results.rows.itertuples()] == [("fp16", 1), ("fp16", 8), ("int8", 8)]
    assert results.rows.machine.isna().all() and results.subject == "resnet50"
    assert results.settings["sources"] == "fp16_8, fp16_1, int8_8"


def test_another_machine_has_neither_headline_nor_speedup_and_says_its_name(tmp_path):
    home = write(tmp_path / "home.json", bench(BASE, ROW))
    away = write(tmp_path / "away.json", on_gpu(BASE, FAST))
    results = load_sources([home, away])
    assert speedups(results) == {
        "PyTorch FP32": 1.0, "FP16": 3900 / 800, "PyTorch FP32 · away": None, "INT8 · away": None,
    }  # fmt: skip
    assert results.machines == {"away": GPU["device"]} and results.device == ENGINE["device"]
    assert results.title("int8", "away") == "INT8 · away"
    assert [where.partition(",")[0] for _, _, where in headline(results)] == ["FP16", "FP16"]
    assert any(GPU["device"] in sentence for sentence in findings(results))
    swapped = load_sources([away, home])
    assert list(speedups(swapped).values()) == [1.0, 100.0, None, None]


def test_ratios_to_another_baseline_than_the_first_runs_are_left_out(tmp_path):
    other = {**BASE, "name": "onnxruntime-fp32", "images_per_s": 400.0}
    paths = [write(tmp_path / "one.json", bench(BASE, ROW)), write(tmp_path / "two.json", bench(other, ROW))]
    expected = {"PyTorch FP32": 1.0, "FP16": 3900 / 800, "ONNX Runtime FP32 · two": None, "FP16 · two": None}
    assert speedups(load_sources(paths)) == expected


def test_a_second_run_of_the_machine_keeps_its_own_speedups_under_its_own_name(tmp_path):
    slower = {**BASE, "median_ms": 20.0, "mean_ms": 20.0, "images_per_s": 400.0}
    paths = [write(tmp_path / "one.json", bench(BASE, ROW)), write(tmp_path / "two.json", bench(slower, ROW))]
    results = load_sources(paths)
    assert speedups(results)["FP16"] == 3900 / 800 and speedups(results)["FP16 · two"] == 3900 / 400
    assert results.rows.machine.isna().all()


def test_two_models_are_not_taken_for_one(tmp_path):
    told = [{**PARSED, "model": model} for model in ("resnet50", "vit_b_16")]
    results = load_sources([write(tmp_path / f"{number}.json", parts) for number, parts in enumerate(told)])
    assert list(results.rows.title) == ["FP16", "FP16 · 1"] and results.subject == "resnet50, vit_b_16"


def test_a_log_that_names_no_device_is_on_a_machine_of_its_own(tmp_path):
    paths = [write(tmp_path / f"{name}.json", {**PARSED, "gpu": None}) for name in "ab"]
    assert load_sources(paths).machines["b"].startswith("TensorRT, machine of b")
    one = load_sources([paths[0], write(tmp_path / "c.json", {**PARSED, "gpu": None, "precision": "int8"})], "my A100")
    assert one.rows.machine.isna().all() and one.device == "my A100"


def test_a_baseline_on_the_processor_beside_the_other_gpu_stays_apart_from_it(tmp_path):
    ort = {**ROW, "name": "onnxruntime-fp32", "device": "ONNX Runtime 1, CPU, 16 threads"}
    paths = [write(tmp_path / "a.json", bench(ROW)), write(tmp_path / "b.json", on_gpu(ROW, ort))]
    results = load_sources(paths)
    row = at(results, "onnxruntime-fp32", 8, "b")
    assert (row.elsewhere, row.machine) == ("CPU, 16 threads", GPU["device"])
    assert [list(part.rows.engine) for part in results.by_machine()] == [["fp16"], ["fp16"]], "it is in no chart"


def test_accuracies_follow_their_rows(tmp_path):
    folder = write_folder(tmp_path / "run")
    other = write_folder(tmp_path / "other")
    for path in other.glob("*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "engine": GPU}))
    results = load_sources([folder, other])
    assert set(results.accuracy.title) <= set(results.rows.title)
    assert len(results.accuracy) == 10


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        ([], "names nothing"),
        (["a.json", "a.json"], "twice"),
        (["nothing.json"], "cannot read the file of measurements"),
    ],
)
def test_no_source_and_one_given_twice_are_errors(tmp_path, names, complaint):
    write(tmp_path / "a.json", bench(ROW))
    with pytest.raises(InputError, match=complaint):
        load_sources([tmp_path / name for name in names])


def test_more_rows_than_a_report_can_show_are_refused(tmp_path):
    many = [{**ROW, "batch": batch, "images_per_s": None} for batch in range(1, 40)]
    with pytest.raises(InputError, match="39 rows of 39 batch sizes; a report shows at most 500 of 32"):
        load_sources([write(tmp_path / "a.json", bench(*many))])
    assert len(load_sources([write(tmp_path / "a.json", bench(*many[:32]))]).rows) == 32


def test_a_folder_with_other_files_says_how_to_name_them(tmp_path):
    write(tmp_path / "benchmark.json", bench(ROW))
    with pytest.raises(InputError, match=r"or name files of bench and parse-log: --results .*benchmark\.json"):
        load_sources([tmp_path])
