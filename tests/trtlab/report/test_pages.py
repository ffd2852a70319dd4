"""The report is complete, self-contained, computed from the folder and honest about gaps; its sentences and headline
numbers follow from the rows, and nothing is said of what was not measured. The numbers are made up.
"""

import dataclasses
import functools
import itertools
import json
import operator
import re
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trtlab.sample_results import (
    ENGINE,
    PARSED,
    ROW,
    VERSIONS,
    at,
    bench,
    edited,
    results_of,
    row,
    sample_results,
    score,
    write,
    write_folder,
)
from trtlab.report.findings import deploy, fastest, figures, findings, headline, saturation
from trtlab.report.pages import make_report
from trtlab.report.sources import load_sources

SOLUTIONS = Path(__file__).parents[3] / "solutions"


def page_of(report) -> ElementTree.Element:
    """The page as a browser reads it; an element that is not closed in order is an error."""
    html = report.html.read_text().removeprefix("<!doctype html>")
    return ElementTree.fromstring(re.sub(r"<((?:meta|img|source) [^>]*)>", r"<\1/>", html))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return make_report(write_folder(tmp_path_factory.mktemp("results")))


def test_the_page_loads_nothing_from_elsewhere(report):
    loaded = [part.get(key) for part in page_of(report).iter() for key in ("src", "href", "srcset") if part.get(key)]
    assert len(loaded) == len(set(loaded)) == 10
    assert all(source.startswith("data:image/png;base64,") for source in loaded)
    assert "http" not in re.sub(r"base64,[^\"]*", "", report.html.read_text())


def test_every_table_and_the_top_of_both_reports_name_the_device(report):
    html, markdown = report.html.read_text(), report.markdown.read_text()
    tables = html.count("<table")
    assert tables == 4
    assert html.count(f"<caption>{ENGINE['device']}</caption>") == html.count("<caption") == tables
    assert ENGINE["device"] in markdown.split("\n\n")[1] and markdown.count(ENGINE["device"]) >= tables + 1


def test_the_tables_hold_the_numbers_of_the_json_with_their_n_and_what_ran(report):
    cells = [cell.text for cell in page_of(report).iter("td")]
    row = at(report.results, "fp16", 8)
    assert {figures(row.median_ms), f"{row.speedup:.2f}×", f"{row.images_per_s:,.1f}"} <= set(cells)
    assert {f"{row.iterations:,}", f"{row.executions:,}", "BF16 (asked FP16)", "FP16 (BF16 ran)"} <= set(cells)
    assert "FP16" not in cells


def test_versions_date_and_what_ran_are_in_both_reports_and_versions_in_the_summary(report):
    for text in (report.html.read_text(), report.markdown.read_text()):
        assert text.count("Most layers ran") == text.count("in BF16: FP16 (BF16 ran), FP16 dynamic (BF16 ran)") == 1
        assert "OpenVINO" in text and VERSIONS["OpenVINO"] in text and "2026-01-02" in text
    assert json.loads(report.summary.read_text())["versions"] == VERSIONS


def test_the_first_line_says_what_to_deploy_and_why(report):
    line = report.markdown.read_text().split("\n\n")[2]
    assert line.startswith("Deploy INT8: the fastest engine that loses at most 1 point of top-1. ")
    assert "images/s at batch 32 (n = 256 executions); 5.0 times PyTorch FP32; median latency" in line
    assert line.endswith("top-1 94.4 % (n = 1,000 images), -0.60 points against PyTorch FP32.")
    assert line in report.html.read_text()


def test_the_markdown_report_has_links_to_files_and_tables_with_as_many_cells_in_every_line(report):
    text = report.markdown.read_text()
    links, tables = re.findall(r"\]\(([^)]+)\)", text), re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert len(links) == 5 and all((report.markdown.parent / link).is_file() for link in links)
    assert len(tables) == 4
    assert all(len({line.count("|") for line in table.splitlines()}) == 1 for table in tables)


def test_a_stage_that_was_not_measured_is_named(tmp_path):
    report = make_report(write_folder(tmp_path, ("latency",)))
    for text in (report.html.read_text(), report.markdown.read_text()):
        assert "not measured" in text and "accuracy (accuracy.json)" in text
    assert "accuracy" in json.loads(report.summary.read_text())["not_measured"]


def test_a_report_of_accuracy_alone_can_be_made(tmp_path):
    report = make_report(write_folder(tmp_path, ("accuracy",)))
    assert report.charts == {} and report.results.rows.empty and len(report.results.accuracy) == 5


@pytest.mark.slow
def test_making_it_again_gives_the_same_report(tmp_path):
    folder = write_folder(tmp_path)
    once, again = (
        [path.read_bytes() for path in (made.html, made.charts["speedup"].with_suffix(".svg"))]
        for made in (make_report(folder), make_report(folder))
    )
    assert once == again


def test_names_from_files_cannot_break_the_page(tmp_path):
    folder = write_folder(tmp_path, ("latency",))
    path = folder / "latency.json"
    path.write_text(path.read_text().replace('"int8"', '"<script>x</script>|y"'))
    report = make_report(folder)
    assert "<script>" not in report.html.read_text()
    assert r"\|y" in report.markdown.read_text()


def test_a_row_that_contradicts_itself_is_marked_and_said_and_no_headline(tmp_path):
    folder = write_folder(tmp_path)
    with edited(folder / "throughput.json") as content:
        best = max(content["rows"], key=lambda row: row["images_per_s"])
        best["images_per_s"] *= 10
    report = make_report(folder)
    assert (best["name"], best["batch"]) == ("int8", 32)
    lines = report.markdown.read_text().splitlines()
    assert [line.split(" | ")[2] for line in lines if line.startswith("| INT8 ‡ |")] == ["32", "32"]
    said = "- Throughput and latency contradict each other: INT8 at batch 32 (10.0 times apart)"
    assert any(line.startswith(said) for line in lines)
    assert not any("batch 32" in where for _, _, where in report.headline)
    found = {"source": "", "name": "int8", "how": "", "batch": 32, "apart": pytest.approx(10.0)}
    assert json.loads(report.summary.read_text())["contradictions"] == [found]


def test_a_report_of_files_lies_beside_them_and_names_its_machines(tmp_path):
    home, away = write(tmp_path / "home.json", bench(ROW)), write(tmp_path / "away.json", PARSED)
    report = make_report([home, away])
    assert report.html == tmp_path / "report" / "report.html"
    text = report.markdown.read_text()
    assert "Beside it, with charts of its own and no speed-up: away (TensorRT 10.16.1, TEST GPU)" in text
    assert "FP16 · away" in text and "- sources: home, away" in text and "| – |" in text
    assert "date not recorded" in text and "- versions: not recorded" in text
    files = json.loads(report.summary.read_text())["files"]
    assert "chart_latency_by_precision_svg" in files and "latency" not in files
    assert all((report.summary.parent / path).is_file() for path in files.values())
    assert make_report([home, away], tmp_path / "elsewhere").html.parent == tmp_path / "elsewhere"
    again = load_sources([report.summary])
    assert list(again.rows.title) == list(report.results.rows.title) == ["FP16", "FP16 · away"]
    assert list(again.rows.machine) == [None, "TensorRT 10.16.1, TEST GPU"]


def saturates(points) -> tuple[int, float, bool]:
    return saturation(pd.DataFrame(points, columns=["batch", "value"]))


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([(1, 100.0), (2, 150.0), (4, 160.0), (8, 165.0)], (2, 150.0, True)),
        ([(1, 100.0), (2, 150.0), (4, 250.0)], (4, 250.0, False)),
        ([(1, 100.0), (2, 101.0), (4, 150.0), (8, 151.0)], (1, 100.0, True)),
        ([(1, 100.0), (2, 90.0)], (1, 100.0, True)),
        ([(1, 100.0), (8, 200.0)], (8, 200.0, False)),
        ([(1, 100.0), (8, 120.0)], (8, 120.0, False)),
        ([(1, 100.0), (2, 110.1), (4, 121.0)], (2, 110.1, True)),
        ([(1, 100.0)], (1, 100.0, False)),
    ],
)
def test_throughput_saturates_where_the_next_larger_batch_gains_less_than_a_tenth(points, expected):
    assert saturates(points) == expected


@functools.cache
def solution_of(step: str, name: str):
    """Return a function that a step's solution defines."""
    notebook = json.loads((SOLUTIONS / step / f"{step}.ipynb").read_text())
    sources = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    namespace: dict = {}
    exec(next(source for source in sources if f"def {name}(" in source), namespace)
    return namespace[name]


@given(st.lists(st.floats(0.5, 1.0999) | st.floats(1.1001, 2), min_size=1, max_size=6))
def test_the_rule_is_that_of_steps_3_and_8(gains):
    points = [(2**place, rate) for place, rate in enumerate(itertools.accumulate([100.0, *gains], operator.mul))]
    assert saturates(points)[0] == solution_of("03_dynamic", "saturation_batch")(dict(points))
    assert saturates(points)[0] == solution_of("08_report", "saturation")({str(batch): r for batch, r in points})


def test_the_headline_accuracy_is_the_fastest_evaluated_engines():
    rows = [row("dynamic-fp16", 8, images_per_s=900.0), row("fp16", 8, images_per_s=800.0)]
    results = results_of(*rows, scored=[score("fp16", 94.0, 100)])
    assert [(number, what) for number, what, _ in headline(results)][-1] == ("94.0 %", "top-1")


def test_the_fastest_engine_is_the_one_with_most_images_a_second_baselines_left_out():
    results = results_of(
        row("pytorch-fp32", 1, images_per_s=50.0), row("fp32", 1, images_per_s=30.0), row("int8", 1, images_per_s=40.0)
    )
    assert fastest(results).engine == "int8" and fastest(results, ["FP16"]) is None


@pytest.mark.parametrize(
    ("loss", "low", "high", "changed", "chance", "expected"),
    [
        (
            0.6,
            0.1,
            1.1,
            12,
            False,
            "points of top-1 against PyTorch FP32 (95 % interval of the loss +0.10",
        ),
        (-0.3, -0.9, 0.3, 9, True, "INT8 gained 0.30 points"),
        (0.1, -0.2, 0.4, 3, True, "no difference that this many images can tell from chance"),
        (0.0, -0.3, 0.3, 0, False, "INT8: right on exactly the images that PyTorch FP32 is right on"),
    ],
)
def test_the_loss_of_accuracy_is_told_with_its_interval(loss, low, high, changed, chance, expected):
    (sentence,) = findings(results_of(scored=[score("int8", 94.0, 1000, loss, low, high, changed)]))
    assert expected in sentence and ("chance" in sentence) is chance


@pytest.mark.parametrize(("p95_ms", "told"), [(10.4, False), (19.0, True)])
def test_a_run_beside_other_programs_says_so(p95_ms, told):
    rows = [row("fp32", batch, median_ms=10.0, p95_ms=p95_ms) for batch in (1, 8)]
    said = " ".join(findings(results_of(*rows)))
    assert ("the typical p95 is 1.9 times the median" in said) is told


def test_failed_checks_come_first():
    passed = {"engine": "fp32", "what": "outputs", "passed": True}
    checks = [passed, {**passed, "engine": "int8", "passed": False, "message": "relative error 0.9"}]
    first = findings(dataclasses.replace(sample_results(), checks=checks))[0]
    assert first == "1 of 2 checks failed: INT8: relative error 0.9."


def bound_of(*times):
    """What is said of layers of these (bound, ms, % of roof)."""
    keys = ("bound", "time_ms", "roof_percent")
    layers = [{"engine": "int8", "batch": 8, **dict(zip(keys, layer, strict=True))} for layer in times]
    return " ".join(findings(results_of(layers=layers)))


def test_the_bound_is_the_one_that_most_layer_time_is_under_in_shares_of_the_whole_time():
    memory = ("memory", 2.0, 40.0), ("memory", 1.0, 70.0)
    said = bound_of(*memory, ("compute", 1.0, 90.0), (None, 1.0, None))
    assert "60 % of the layers' time of INT8 at batch 8 is memory-bound: faster arithmetic would not help" in said
    assert said.endswith("there, and no bound is known for 20 %. The memory-bound layers reach 50 % of their roof.")
    assert "75 % of the layers' time" in bound_of(*memory, ("compute", 1.0, 90.0))
    assert "known" not in bound_of(*memory)


def test_where_most_of_the_time_has_no_bound_none_is_named():
    said = bound_of(("memory", 4.0, 2.0), (None, 5.0, None))
    assert said == "No bound is known for 56 % of the layers' time of INT8 at batch 8."


def test_layers_far_below_their_roof_are_bound_by_neither():
    layers = [{"engine": "int8", "batch": 1, "bound": "memory", "time_ms": 2.0, "roof_percent": 0.4}]
    said = " ".join(findings(results_of(layers=layers)))
    assert "Neither arithmetic nor memory holds INT8 at batch 1 back: its layers reach 0 % of their roof." in said
    assert "memory-bound" not in said


def test_fp32_under_another_name_is_not_the_one_to_deploy_where_fp32_was_measured():
    fp32, tf32 = row("fp32", 8, "fp32", "fp32", images_per_s=100.0), row("tf32", 8, "tf32", "fp32", images_per_s=110.0)
    assert deploy(results_of(fp32, tf32)).startswith("Deploy FP32: ")
    assert deploy(results_of(tf32)).startswith("Deploy TF32 (FP32 ran): ")
    assert deploy(results_of(fp32, row("fp16", 8, "fp16", "bf16", images_per_s=110.0))).startswith("Deploy FP16 (BF16")


@pytest.mark.parametrize(
    "results",
    [
        results_of(),
        results_of(row("fp32", 8, images_per_s=100.0)),
    ],
    ids=["nothing", "one batch"],
)
def test_nothing_is_said_of_what_was_not_measured(results):
    assert findings(results) == []


def test_no_headline_names_a_precision_that_did_not_run():
    rows = [row("pytorch-fp32", 8, "fp32", "fp32", images_per_s=80.0, median_ms=90.0)]
    rows += [row("fp16", 8, "fp16", "fp32", images_per_s=160.0, median_ms=50.0, iterations=30)]
    results = results_of(*rows, scored=[score("fp16", 94.0, 1000)])
    assert [where for _, _, where in headline(results)] == [
        "FP16 (FP32 ran), batch 8",
        "FP16 (FP32 ran), batch 8, 30 calls",
        "FP16 (FP32 ran), 1,000 images",
    ]
    assert all("FP16 (FP32 ran)" in sentence for sentence in findings(results) if "FP16" in sentence)


def test_a_row_of_another_device_is_never_the_best_and_is_named():
    slow = {"device": "TensorRT 8.6.0, TEST GPU", "median_ms": 3.0, "images_per_s": 2500.0}
    fast = {"device": "ONNX Runtime 1, CPU, 2 threads", "elsewhere": "CPU, 2 threads"}
    rows = [row("int8", 8, **slow), row("onnxruntime-fp32", 8, **fast, median_ms=1.0, images_per_s=7900.0)]
    results = results_of(row("pytorch-fp32", 8, **slow), *rows)
    assert "ONNX" not in " ".join(where for _, _, where in headline(results))
    assert "ONNX Runtime FP32 (on CPU) ran on CPU, 2 threads, not on the GPU: it has no speed-up" in " ".join(
        findings(results)
    )


@pytest.mark.parametrize(
    ("scores", "start", "end"),
    [
        ([score("fp16", 94.9, 10, 0.1), score("int8", 94.4, 10, 1.2)], "Deploy FP16 (BF16 ran): ", "FP32."),
        ([score("int8", 94.4, 1000)], "Deploy INT8: the fastest engine that", "top-1 94.4 % (n = 1,000 images)."),
        ([], "Deploy INT8: the fastest engine; its accuracy was not measured. ", " ms (n = 132 calls)."),
    ],
)
def test_the_engine_to_deploy_loses_little_as_far_as_that_is_known(scores, start, end):
    said = deploy(dataclasses.replace(sample_results(), scored=scores))
    assert said.startswith(start) and said.endswith(end)
    assert deploy(results_of(scored=scores)) is None
