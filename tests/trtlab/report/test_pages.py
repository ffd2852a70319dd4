"""The report is complete, self-contained, computed from the folder and honest about gaps. The numbers are made up."""

import json
import re
from html.parser import HTMLParser

import pytest

from tests.trtlab.report.test_files import PARSED, ROW, bench, write
from tests.trtlab.sample_results import ENGINE, VERSIONS, at, write_folder
from trtcpu.errors import InputError
from trtlab.report.findings import figures
from trtlab.report.pages import make_report
from trtlab.report.sources import load_sources


class Page(HTMLParser):
    """Collects what a browser would load, and checks that elements are closed in order."""

    VOID = {"meta", "img", "br", "link", "input", "source"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.sources, self.cells, self.captions = [], [], [], 0
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.sources += [values[key] for key in ("src", "href", "srcset") if key in values]
        self.captions += tag == "caption"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "td":
            self.cells.append(data)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return make_report(write_folder(tmp_path_factory.mktemp("results")))


def test_the_page_loads_nothing_from_elsewhere(report):
    page = Page(report.html.read_text())
    assert len(page.sources) == len(set(page.sources)) == 10
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)
    assert "http" not in re.sub(r"base64,[^\"]*", "", report.html.read_text())


def test_every_table_and_the_top_of_both_reports_name_the_device(report):
    html, markdown = report.html.read_text(), report.markdown.read_text()
    tables = html.count("<table")
    assert Page(html).captions == tables == 4
    assert html.count(f"<caption>{ENGINE['device']}</caption>") == tables
    assert ENGINE["device"] in markdown.split("\n\n")[1] and markdown.count(ENGINE["device"]) >= tables + 1


def test_the_tables_hold_the_numbers_of_the_json_with_their_n_and_what_ran(report):
    cells = Page(report.html.read_text()).cells
    row = at(report.results, "fp16", 8)
    assert {figures(row.median_ms), f"{row.speedup:.2f}×", f"{row.images_per_s:,.1f}"} <= set(cells)
    assert {f"{row.iterations:,}", f"{row.executions:,}", "BF16 (asked FP16)", "FP16 (BF16 ran)"} <= set(cells)
    assert "FP16" not in cells


def test_a_percentile_that_few_calls_cannot_give_is_a_dash(tmp_path):
    folder = write_folder(tmp_path, ("latency",))
    path = folder / "latency.json"
    content = json.loads(path.read_text())
    content["rows"] = [{**row, "iterations": 20} for row in content["rows"] if row["name"] == "int8"]
    path.write_text(json.dumps(content))
    line = next(line for line in make_report(folder).markdown.read_text().splitlines() if line.startswith("| INT8 |"))
    calls, p90, p95, p99 = (line.split(" | ")[column] for column in (3, 6, 7, 8))
    assert calls == "20" and "–" not in (p90, p95) and p99 == "–"


def test_versions_and_date_are_in_both_reports_and_the_summary(report):
    for text in (report.html.read_text(), report.markdown.read_text()):
        assert "OpenVINO" in text and VERSIONS["OpenVINO"] in text and "2026-01-02" in text
    assert json.loads(report.summary.read_text())["versions"] == VERSIONS


def test_what_an_old_folder_does_not_know_is_said(tmp_path):
    folder = write_folder(tmp_path)
    for path in folder.glob("*.json"):
        content = json.loads(path.read_text())
        del content["versions"], content["measured"]
        path.write_text(json.dumps(content))
    text = make_report(folder).markdown.read_text()
    assert "date not recorded" in text and "- versions: not recorded" in text


def test_in_which_precision_the_rows_ran_is_said_once(report):
    for text in (report.html.read_text(), report.markdown.read_text()):
        assert text.count("Most layers ran") == text.count("in BF16: FP16 (BF16 ran), FP16 dynamic (BF16 ran)") == 1


def test_the_first_line_says_what_to_deploy_and_why(report):
    line = report.markdown.read_text().split("\n\n")[2]
    assert line.startswith("Deploy INT8: the fastest engine that loses at most 1 point of top-1. ")
    assert "images/s at batch 32 (n = 256 executions); 5.0 times PyTorch FP32; median latency" in line
    assert line.endswith("top-1 94.4 % (n = 1,000 images), -0.60 points against PyTorch FP32.")
    assert line in report.html.read_text()


def test_links_of_the_markdown_report_lead_to_files(report):
    links = re.findall(r"\]\(([^)]+)\)", report.markdown.read_text())
    assert len(links) == 5 and all((report.markdown.parent / link).is_file() for link in links)


def test_tables_of_the_markdown_report_have_as_many_cells_in_every_line(report):
    blocks = re.findall(r"(?:^\|.*\n)+", report.markdown.read_text(), re.MULTILINE)
    assert len(blocks) == 4
    for block in blocks:
        assert len({line.count("|") for line in block.splitlines()}) == 1


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
    assert make_report(write_folder(tmp_path, ("accuracy",))).charts == {}


@pytest.mark.slow
def test_making_it_again_gives_the_same_report(tmp_path):
    folder = write_folder(tmp_path)
    first = make_report(folder).html.read_bytes()
    assert make_report(folder).html.read_bytes() == first


def test_names_from_files_cannot_break_the_page(tmp_path):
    folder = write_folder(tmp_path, ("latency",))
    path = folder / "latency.json"
    path.write_text(path.read_text().replace('"int8"', '"<script>x</script>|y"'))
    report = make_report(folder)
    assert "<script>" not in report.html.read_text()
    assert r"\|y" in report.markdown.read_text()


def test_a_row_that_contradicts_itself_is_marked_and_said_and_no_headline(tmp_path):
    folder = write_folder(tmp_path)
    path = folder / "throughput.json"
    content = json.loads(path.read_text())
    best = max(content["rows"], key=lambda row: row["images_per_s"])
    best["images_per_s"] *= 10
    path.write_text(json.dumps(content))
    report = make_report(folder)
    assert (best["name"], best["batch"]) == ("int8", 32)
    lines = report.markdown.read_text().splitlines()
    assert [line.split(" | ")[2] for line in lines if line.startswith("| INT8 ‡ |")] == ["32", "32"]
    said = "- Throughput and latency contradict each other: INT8 at batch 32 (10.0 times apart)"
    assert any(line.startswith(said) for line in lines)
    assert not any("batch 32" in where for _, _, where in report.headline)
    assert json.loads(report.summary.read_text())["contradictions"][0]["name"] == "int8"


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
