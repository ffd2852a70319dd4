"""What the documents say is what code, records and bank hold: numbers, names, and paths of what students get."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from helpers.course.settings import BATCHES, NAMES
from helpers.course.steps import ARTIFACTS, BY_NAME, CELLS, CRITERIA, GRADED, NOTEBOOKS, OPTIONAL, STEPS
from solutions.grading.addresses import BUNDLE
from solutions.grading.labs import PAGES, make_release, with_facts
from solutions.grading.layout import ROOT
from tests.benchmarks import offline_page
from tests.benchmarks.page import BENCH, PAGE, in_page
from tests.submissions.size import with_size

README = (ROOT / "README.md").read_text()
LABS = (ROOT / "labs" / "README.md").read_text()
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "labs" / "README.md", ROOT / "datasets" / "README.md"]
STUDENTS = ROOT / "solutions" / "grading" / "student"
VARIABLE = re.compile(r"TRT_LAB_[A-Z]+(?:_[A-Z]+)*")


def test_every_environment_variable_is_in_the_table_and_no_other() -> None:
    sources = [ROOT / "Makefile", STUDENTS / "Makefile"]
    for folder in ("helpers", "trtcpu", "trtlab", "solutions", "tests", "website"):
        sources += [path for path in (ROOT / folder).rglob("*.py") if path != Path(__file__)]
    used = {name for path in sources for name in VARIABLE.findall(path.read_text())}
    page = (ROOT / "docs" / "environment.md").read_text()
    assert set(re.findall(rf"^\| `({VARIABLE.pattern})` \|", page, re.M)) == used


def test_the_readme_has_the_bank_s_size() -> None:
    assert with_size(README) == README, "make submissions writes it"


@pytest.mark.parametrize("folder", ["cpu", "h200"])
def test_the_result_in_the_readme_is_that_of_the_kept_runs(folder: str) -> None:
    summary = json.loads((ROOT / "docs" / "results" / folder / "summary.json").read_text())
    rows, device = summary["rows"], re.sub(r" \(.*\)", "", summary["engine"]["device"]).split(", ")[-1]
    best = max((row for row in rows if not row["elsewhere"]), key=lambda row: row["images_per_s"])
    base = next(row for row in rows if row["name"] == "pytorch-fp32" and row["batch"] == best["batch"])
    said = README[README.index("**The result:**") : README.index("## Start")].replace("\n", " ")
    clause = next(part for part in re.split(r"[;.] ", said) if device.removeprefix("NVIDIA ") in part)
    for value in (
        f"{best['name'].upper()} at batch {best['batch']} does {best['images_per_s']:,.0f} images/s",
        f"{best['images_per_s'] / base['images_per_s']:.1f}× PyTorch FP32",
    ):
        assert value in clause, f"docs/results/{folder} has {value}"
    loss = next(row for row in summary["accuracy"] if row["name"] == best["name"])
    assert f"{base['top1']:.1f}" == f"{best['top1']:.1f}" and f"Top-1 stays at {base['top1']:.1f} % on both" in said
    assert loss["loss_high"] < 0.4 and f"{loss['num_samples']:,} images: a loss of up to 0.4 points" in said


def test_the_figures_of_the_marking_samples_are_the_h200_run_s() -> None:
    rows = json.loads((ROOT / "docs" / "results" / "h200" / "summary.json").read_text())["rows"]
    samples = (ROOT / "docs" / "grading-samples.md").read_text().replace("\n> ", " ")
    rates, factors = re.findall(r"([\d,]+) images/s", samples), re.findall(r"(\d+\.\d\d)×", samples)
    assert len(rates) > 3 and set(rates) <= {f"{row['images_per_s']:,.0f}" for row in rows}
    int8, fp16 = (next(r for r in rows if (r["name"], r["batch"]) == (name, 32)) for name in ("int8", "fp16"))
    derived = {f"{int8['images_per_s'] / fp16['images_per_s']:.2f}"}
    assert len(factors) > 5 and set(factors) <= derived | {f"{row['speedup']:.2f}" for row in rows if row["speedup"]}
    assert set(re.findall(r"(\d+\.\d) %", samples)) <= {f"{row['top1']:.1f}" for row in rows if row["top1"]}


def test_the_table_of_the_benchmarks_is_the_kept_measurement() -> None:
    page, bench = PAGE.read_text(), json.loads(BENCH.read_text())
    assert f"{bench['date']}, by `{bench['command']}`" in page, "the page has no place for the table, or an older one"
    assert in_page(page, bench) == page, "make bench writes it"
    most = max(found["of"] - found["equal"] for found in bench["scales"].values())
    assert f"{bench['calibration']['entropy_peak_bytes'] / 1e9:.1f} GB, for calibrating" in LABS
    rows = json.loads((ROOT / "docs" / "results" / "cpu" / "summary.json").read_text())["rows"]
    largest = max(rows, key=lambda row: row["peak_memory_bytes"] or 0)
    assert (largest["name"], largest["batch"]) == ("pytorch-fp32", 32)
    assert f"{largest['peak_memory_bytes'] / 1e9:.1f} GB, for PyTorch at batch 32" in LABS
    assert f"except at most {['none', 'one', 'two', 'three'][most]} per calibrator" in README


def test_the_tables_of_throughput_are_the_kept_measurements() -> None:
    page = offline_page.PAGE.read_text()
    assert offline_page.in_page(page) == page, "make offline writes them"
    devices = [json.loads(path.read_text())["engine"]["device"] for path in ROOT.glob("docs/results/*/offline.json")]
    assert devices and page.count("\n### ") == len(devices)
    kept = json.loads((ROOT / "docs" / "results" / "h200" / "offline.json").read_text())["rows"]
    best = max(kept, key=lambda row: row["images_per_s"])
    assert f"batches of {best['batch']} in two streams" in README and best["streams"] == 2
    rate = f"{best['images_per_s']:,.0f} images/s"
    assert f"INT8 engine gives {rate}" in README and best["precision"] == "int8"
    share = re.findall(r"That is \*\*(\d+ %)", page)
    assert len(share) == 1 and f"images/s, {share[0]} of what NVIDIA" in README


@pytest.mark.parametrize("column, model", [(1, "resnet50"), (2, "resnet18")])
def test_the_accuracies_of_the_weights_are_those_of_the_training(column: int, model: str) -> None:
    page = (ROOT / "datasets" / "README.md").read_text()
    kept = json.loads((ROOT / "datasets" / "weights" / f"{model}.json").read_text())
    table = page[page.index("| preprocessing |") :].split("\n\n")[0].splitlines()[2:]
    shown = [float(row.strip("| ").split("|")[column]) for row in table]
    assert shown == [kept["top1_fp32_percent"], *kept["top1_fp32_percent_with_mistake"].values()]
    assert f"| {kept['top1_fp32_percent']} % | " in page and f" | {kept['kept_weights']:,} |" in page


@pytest.mark.parametrize("page", PAGES)
def test_tables_of_steps_and_the_repository_s_address_are_up_to_date(page: str) -> None:
    text = (ROOT / page).read_text()
    assert with_facts(page, text) == text, "make labs writes them"


@pytest.mark.parametrize("step", NOTEBOOKS)
def test_a_notebook_says_what_the_table_of_steps_does(step: str) -> None:
    about, cells = BY_NAME[step], _cells(step)
    labels = [cell.metadata.get("nbgrader", {}) for cell in cells]
    assert _minutes(step) == about.minutes and cells[0].source.startswith(f"# Step {_number(step)} · ")
    assert {label["grade_id"] for label in labels if label.get("grade")} == set(about.cells)
    assert sum(label.get("points", 0) for label in labels) == about.points
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    for name in about.writes:
        assert re.search(rf"^(def|class) {name}\b", code, re.M), name
    said = cells[0].source
    assert all(name in said or name in code for name in about.makes)


def test_the_hand_out_counts_checks_as_the_notebooks_do() -> None:
    for step in STEPS:
        number, cells = _number(step), _cells(step)
        code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
        checks = set(re.findall(r"feedback\.(check_\w+)\(", code)) - {"check_speed"}  # it shows, and ticks nothing
        told = {1: "the check ticks", 2: "both checks tick"}.get(len(checks), "all checks tick")
        assert f"- [ ] {number}: {told}" in LABS, step


def _number(step: str) -> int:
    return int(step[:2])


def _cells(step: str) -> list[nbformat.NotebookNode]:
    return nbformat.read(ROOT / "labs" / step / f"{step}.ipynb", as_version=4).cells


def _minutes(step: str) -> int:
    return int(re.search(r"\*\*Time\*\* about (\d+) minutes", " ".join(_cells(step)[0].source.split()))[1])


def _points() -> dict[str, float]:
    """Return the points of each test cell by its name, as the notebooks have them."""
    labels = [cell.metadata.get("nbgrader", {}) for step in GRADED for cell in _cells(step)]
    return {label["grade_id"]: label["points"] for label in labels if label.get("points")}


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_hand_out_gives_a_criterion_the_points_and_steps_of_its_cells(criterion: str) -> None:
    points = _points()
    _, row, where = re.search(rf"^\| ({criterion}) \| (\d+).*? \| (.*) \|$", LABS, re.M).groups()
    assert int(row) == sum(points[name] for name, cell in CELLS.items() if cell.criterion == criterion)
    said = set()
    for first, last, other in re.findall(r"steps? (\d+)(?: to (\d+))?(?: and (\d+))?", where):
        said |= {*range(int(first), int(last or first) + 1), int(other or first)}
    assert said == {_number(cell.step) for cell in CELLS.values() if cell.criterion == criterion}


COUNTED = {
    "README.md": "{steps} notebooks, {points:g} points, about {hours} hours",
    "labs/README.md": "in {steps} steps … about {hours} hours in all … the {steps} notebooks … {batches} batch sizes "
    "of {names} names … the {charts} charts open … shows {steps} ticks … {checked} points for report, charts and "
    "figures; {read} for the analysis",
    "labs/AGENTS.md": "course: {steps} notebooks",
    "solutions/grading/00_start.ipynb": "{steps} notebooks, {points:g} points, about {hours} hours",
    "solutions/grading/student/README.md": "{steps} notebooks, about {hours} hours",
    "solutions/08_report/08_report.ipynb": "{checked} are checked here, {read}",
    "website/index.md": "the {steps} chapters … the {steps} steps … the {steps} steps",
    "docs/instructor.md": "the {steps} notebooks … a person gives {read} of step 8's points",
    "docs/comparison.md": "of {steps} notebooks … its {steps} steps … asks for {hours} hours … our {steps}",
}
"""What pages say of the lab's size, in their order and with anything between."""


@pytest.mark.parametrize("page", COUNTED)
def test_the_pages_count_what_the_lab_has(page: str) -> None:
    points = _points()
    of_step_8 = sum(points[name] for name, cell in CELLS.items() if cell.step == "08_report")
    counts = {
        **{"steps": len(STEPS), "batches": len(BATCHES)},
        **{"names": len(NAMES), "charts": sum(name.endswith(".png") for name in ARTIFACTS)},
        **{"hours": round(sum(map(_minutes, STEPS)) / 60), "read": points["analysis"]},
        "checked": of_step_8 - points["analysis"],
    }
    words = {name: "zero one two three four five six seven eight nine".split()[int(n)] for name, n in counts.items()}
    bonus = sum(points[name] for name, cell in CELLS.items() if cell.step in OPTIONAL)
    said = COUNTED[page].format(**words, points=sum(points.values()) - bonus).split(" … ")
    text = " ".join((ROOT / page).read_text().replace('\\n",', "").replace('"', "").split())
    assert re.search(".*".join(map(re.escape, said)), text, re.I), said


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a student has after `make jupyter`: the archive, and its notebooks laid out."""
    folder = tmp_path_factory.mktemp("archive")
    make_release(ROOT, folder / "student.zip")
    with zipfile.ZipFile(folder / "student.zip") as archive:
        archive.extractall(folder)
    subprocess.run(
        [sys.executable, "-m", "helpers.course.handout"], cwd=folder / BUNDLE, check=True, capture_output=True
    )
    return folder / BUNDLE


def test_the_archive_s_pages_and_notebooks_link_only_to_what_is_in_it(unpacked: Path) -> None:
    broken = []
    texts = {path: path.read_text() for path in unpacked.rglob("*.md")}
    for path in (unpacked / "labs").rglob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        texts[path] = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    for path, text in texts.items():
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if "://" not in target and not (path.parent / target).exists():
                broken.append(f"{path.relative_to(unpacked)} → {target}")
    assert len(texts) >= len(NOTEBOOKS) + 3 and not broken


def test_the_archive_s_pages_name_only_files_and_commands_that_are_in_it(unpacked: Path) -> None:
    made = ("labs/artifacts", "labs/.kept", "datasets/cache")
    elsewhere = {"datasets/train_weights.py": "in the repository, not in the students' archive"}
    tops = "|".join(sorted({path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "."}))
    targets = set(re.findall(r"^([a-z][a-z-]*):", (unpacked / "Makefile").read_text(), re.M))
    for page in unpacked.rglob("*.md"):
        text = page.read_text()
        for name in re.findall(rf"(?<![\w/.-])(?:{tops})/[\w./-]*\w", text):
            told = elsewhere.get(name, "\0") in text
            assert told or name.startswith(made) or (unpacked / name).exists(), f"{page.name} names {name}"
        named = set(re.findall(r"(?:`|^ {4}|&& )make ([a-z-]+)", text, re.M))
        assert named <= targets, f"{page.name} names make {named - targets}"


def test_documents_do_without_words_that_readers_from_abroad_stumble_over() -> None:
    for path in [*DOCUMENTS, *STUDENTS.iterdir(), ROOT / "Makefile"]:
        assert (found := re.findall(r"\b(?:anew|but for)\b", path.read_text())) == [], f"{path.name}: {found}"
