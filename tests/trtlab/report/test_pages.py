"""The report is complete, self-contained, computed from the folder and honest about gaps. The numbers are made up."""

import dataclasses
import json
import re
from xml.etree import ElementTree

import pytest

from tests.trtlab.sample_results import (
    ENGINE,
    PARSED,
    ROW,
    VERSIONS,
    at,
    bench,
    edited,
    sample_results,
    write,
    write_folder,
)
from trtcpu.errors import InputError
from trtlab.report.findings import figures
from trtlab.report.pages import make_report
from trtlab.report.sources import load_sources


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


def test_a_percentile_that_few_calls_cannot_give_is_a_dash(tmp_path):
    folder = write_folder(tmp_path, ("latency",))
    with edited(folder / "latency.json") as content:
        content["rows"] = [{**row, "iterations": 20} for row in content["rows"] if row["name"] == "int8"]
    line = next(line for line in make_report(folder).markdown.read_text().splitlines() if line.startswith("| INT8 |"))
    calls, p90, p95, p99 = (line.split(" | ")[column] for column in (3, 6, 7, 8))
    assert calls == "20" and "–" not in (p90, p95) and p99 == "–"


def test_versions_date_and_what_ran_are_in_both_reports_and_versions_in_the_summary(report):
    for text in (report.html.read_text(), report.markdown.read_text()):
        assert "OpenVINO" in text and VERSIONS["OpenVINO"] in text and "2026-01-02" in text
        assert text.count("Most layers ran") == text.count("in BF16: FP16 (BF16 ran), FP16 dynamic (BF16 ran)") == 1
    assert json.loads(report.summary.read_text())["versions"] == VERSIONS


def test_what_an_old_folder_does_not_know_is_said(tmp_path):
    old = dataclasses.replace(sample_results(), versions={}, measured=None)
    text = make_report(write_folder(tmp_path, results=old)).markdown.read_text()
    assert "date not recorded" in text and "- versions: not recorded" in text


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


def test_the_summary_lists_files_that_exist(report):
    files = json.loads(report.summary.read_text())["files"]
    assert {"report_html", "report_md", "latency"} <= set(files)
    assert all((report.summary.parent / path).is_file() for path in files.values())


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
    assert "Beside it, with charts of its own: away (TensorRT 10.16.1, TEST GPU)" in text
    assert "FP16 · away" in text and "- sources: home, away" in text
    files = json.loads(report.summary.read_text())["files"]
    assert "chart_latency_by_precision_svg" in files and "latency" not in files
    assert all((report.summary.parent / path).is_file() for path in files.values())
    assert make_report([home, away], tmp_path / "elsewhere").html.parent == tmp_path / "elsewhere"
    again = load_sources([report.summary])
    assert list(again.rows.title) == list(report.results.rows.title) == ["FP16", "FP16 · away"]
    assert list(again.rows.machine) == [None, "TensorRT 10.16.1, TEST GPU"]


def test_nothing_measured_is_one_clear_error_and_nothing_is_written(tmp_path):
    with pytest.raises(InputError, match="measure first"):
        make_report(tmp_path)
    assert list(tmp_path.iterdir()) == []
