"""Claims of step 8: the report says what was measured, its charts can be read, its text tells the same numbers."""

from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from helpers.backend import DEVICE
from helpers.feedback.chart_parts import check_device, check_labels, check_numbers
from helpers.feedback.page_parts import check_page
from helpers.feedback.text_parts import check_length, check_quotes, check_typed
from helpers.missed import Missed
from helpers.points.case import Case
from helpers.probes.figures import Drawn
from helpers.probes.measurements import BASELINE, BATCHES, ENGINE_FILES, ONNX_FILE, made_up
from helpers.probes.networks import tiny_onnx
from helpers.probes.series import Series
from helpers.probes.student import Student
from solutions.checks.core.claim import Earned, claim
from solutions.checks.reports import CHARTS, SOURCES, check_picture, differences, expected_report, parsed
from solutions.pipeline.build import build_engine
from solutions.pipeline.build_options import BuildOptions

REPORT = "report.json"
MADE = (REPORT, "report.html", *CHARTS)
_MEASURED = ("engine", "model", "sizes_bytes", "memory_bytes", "latency_ms", "throughput", "accuracy")
_RUNS = 8
"""Made-up runs for figures and quotes: by chance, a wrong one is right for one of them, not for all."""

_SPECIAL: dict[int, dict[str, Any]] = {
    0: {"int8_after": (1.02, 1.06)},
    1: {"int8_after": (0.7, 0.85)},
    2: {"pytorch_fastest": True},
}
"""What some of these runs are by construction, by their number: INT8 still creeps up after its saturation batch, so
that the largest throughput is elsewhere; it falls there; PyTorch is the fastest."""

_OPTIONAL = {"speedup": (BASELINE,), "accuracy_loss": (BASELINE, "fp32")}


@lru_cache(maxsize=4)
def _sources(seed: int) -> dict[str, bytes]:
    """Return files that nobody has seen: measurements made up, small engines of other sizes and batches."""
    run = made_up(seed)
    classes = sorted({10 + (seed // step) % 400 for step in (1, 401, 160_001, 64_000_001)})
    with TemporaryDirectory() as name:
        folder = Path(name)
        run.write(folder, seed)
        (folder / ONNX_FILE).write_bytes(tiny_onnx(seed, classes=classes[0]))
        for place, file in enumerate(ENGINE_FILES.values()):
            (folder / "small.onnx").write_bytes(
                tiny_onnx(seed + place, classes=classes[place % len(classes)] + 7 * place)
            )
            options = BuildOptions(precision=("fp16", "fp32", "fp32")[place], max_batch=5 - place, opt_batch=1)
            build_engine(folder / "small.onnx", folder / file, options)
        return {file: (folder / file).read_bytes() for file in SOURCES}


@lru_cache(maxsize=4)
def _expected(seed: int) -> dict[str, Any]:
    return expected_report(_sources(seed))


def _seed(case: Case) -> int:
    return case.number("report.measurements")


def _built(student: Student, case: Case) -> dict[str, Any]:
    files = _sources(_seed(case))
    return student.call("build_report", files=files, made=list(MADE)).require("build_report")


def _agrees(student: Student, case: Case, *keys: str) -> str:
    """Return the parts of report.json that equal what the files hold; raise Missed at the first number that differs."""
    content = parsed(_built(student, case)["files"][REPORT], REPORT)
    return _compare(content, _expected(_seed(case)), keys)


def _compare(content: Any, expected: dict[str, Any], keys: tuple[str, ...]) -> str:
    content = content if isinstance(content, dict) else {}
    wrong = [line for key in keys for line in differences(content.get(key), expected[key], key, _OPTIONAL.get(key, ()))]
    if wrong:
        place, should, found = wrong[0]
        more = f" (and {len(wrong) - 1} more that differ)" if len(wrong) > 1 else ""
        raise Missed(f"{place} to be {should}", f"{found}{more}", "read it from the files in artifacts_folder")
    return f"{', '.join(keys)}: equal to the files"


@claim("report.written", cell="report_numbers", points=0.25, title="report.json is written, and its content returned")
def written(student: Student, case: Case) -> str:
    built = _built(student, case)
    content = parsed(built["files"][REPORT], REPORT)
    if not isinstance(content, dict) or built["returned"] != content:
        raise Missed(
            "the content of report.json to be returned", f"a {built['returned_type']}", "return what you write"
        )
    return f"keys {', '.join(content)[:120]}"


@claim("report.sizes", cell="report_numbers", points=0.5, title="The sizes are those of the files")
def sizes(student: Student, case: Case) -> str:
    return _agrees(student, case, "sizes_bytes")


@claim("report.memory", cell="report_numbers", points=0.5, title="The memory is what each engine asks for")
def memory(student: Student, case: Case) -> str:
    return _agrees(student, case, "memory_bytes")


@claim("report.measurements", cell="report_numbers", points=0.75, title="Latency and throughput are the measured ones")
def measurements(student: Student, case: Case) -> str:
    return _agrees(student, case, "engine", "model", "latency_ms", "throughput")


@claim(
    "report.speedup", cell="report_numbers", points=0.75, title="The speed-up is over PyTorch FP32 at the same batch"
)
def speedup(student: Student, case: Case) -> str:
    return _agrees(student, case, "speedup")


@claim("report.accuracy", cell="report_numbers", points=0.75, title="Accuracy in percent, loss in points below FP32")
def accuracy(student: Student, case: Case) -> str:
    return _agrees(student, case, "accuracy", "accuracy_loss")


@claim("report.this_run", cell="report_numbers", points=0.5, title="The report among the artifacts is of this run")
def this_run(student: Student, case: Case) -> str:
    files = {name: student.artifact(name) for name in (*SOURCES, *MADE)}
    if missing := [name for name, content in files.items() if content is None]:
        raise Missed(
            "the report and what it is about among the artifacts", f"no {missing[0]}", "run the notebook again"
        )
    content = parsed(files[REPORT], REPORT)
    try:
        expected = expected_report({name: files[name] for name in SOURCES})
    except (ValueError, KeyError, TypeError) as error:
        raise Missed(
            "measurements in the files' format", f"{type(error).__name__}: {error}", "run steps 6 and 7 again"
        ) from error
    return _compare(content, expected, _MEASURED)


def _figure(student: Student, case: Case, name: str) -> Drawn | None:
    facts = _built(student, case)["figures"][name]
    if facts is None:
        return None
    series = tuple(Series(**_tuples(one)) for one in facts["series"])
    return Drawn(**_tuples(facts) | {"series": series})


def _tuples(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()}


def _share(points: list[tuple[str, Any]]) -> Earned:
    """Run one point a chart; return the share of them that was kept, with the first miss."""
    evidence, missed = [], []
    for _, point in points:
        try:
            evidence.append(point())
        except Missed as found:
            missed.append(found)
    return Earned(len(evidence) / len(points), "; ".join(evidence), missed[0] if missed else None)


@claim("charts.pictures", cell="report_charts", points=0.75, title="Four charts that open and show something")
def pictures(student: Student, case: Case) -> Earned:
    files = _built(student, case)["files"]
    return _share([(name, lambda name=name: check_picture(files[name], name)) for name in CHARTS])


@claim("charts.labels", cell="report_charts", points=0.75, title="The axes have labels with units")
def labels(student: Student, case: Case) -> Earned:
    return _share([(name, lambda name=name: check_labels(name, _figure(student, case, name))) for name in CHARTS])


@claim("charts.device", cell="report_charts", points=0.5, title="Each chart names the engine and device")
def device(student: Student, case: Case) -> Earned:
    engines = (_expected(_seed(case))["engine"], DEVICE)
    points = [(name, lambda name=name: check_device(name, _figure(student, case, name), engines)) for name in CHARTS]
    return _share(points)


@claim("charts.numbers", cell="report_charts", points=0.5, title="The charts show the measured numbers")
def numbers(student: Student, case: Case) -> Earned:
    expected = _expected(_seed(case))
    points = [(name, lambda name=name: check_numbers(name, _figure(student, case, name), expected)) for name in CHARTS]
    return _share(points)


@claim("charts.page", cell="report_charts", points=0.5, title="report.html holds the tables and the charts")
def page(student: Student, case: Case) -> str:
    files = _built(student, case)["files"]
    if files["report.html"] is None:
        raise Missed("report.html", "no such file", "write it into output_folder, beside the charts")
    charts = {name: files[name] for name in CHARTS}
    return check_page(files["report.html"].decode(errors="replace"), charts, _expected(_seed(case)))


def _other_report(case: Case, purpose: str, **special: Any) -> tuple[Any, dict[str, Any]]:
    """Return a run that was made up, and its report."""
    run = made_up(case.number(purpose), **special)
    random = case.random(f"{purpose}.sizes")
    sizes = {name: int(random.integers(3_000_000, 900_000_000)) for name in ("onnx", *ENGINE_FILES)}
    return run, run.report(sizes, {name: int(random.integers(1_000_000, 90_000_000)) for name in ENGINE_FILES})


@claim("analysis.key_figures", cell="analysis_figures", points=1, title="The key figures are those of the report")
def key_figures(student: Student, case: Case) -> Earned:
    misses, right = [], []
    for number in range(_RUNS):
        run, report = _other_report(case, f"analysis.key_figures.{number}", **_SPECIAL.get(number, {}))
        expected = {
            "fastest_name": run.fastest[0],
            "fastest_batch": run.fastest[1],
            "int8_speedup": report["speedup"]["int8"][str(BATCHES[-1])],
            "int8_top1_loss": report["accuracy_loss"]["int8"],
            "int8_saturation_batch": run.saturation["int8"],
        }
        found = student.call("about_report", function="key_figures", report=report).require("key_figures")
        found = found if isinstance(found, dict) else {}
        for key, value in expected.items():
            wrong = differences(found.get(key), value, key)
            right += [key] if not wrong else []
            misses += wrong
    missed = None
    if misses:
        place, should, was = misses[0]
        missed = Missed(f"{place} = {should} for a run that was made up", was, "read the key's definition again")
    kept = [key for key in dict.fromkeys(right) if right.count(key) == _RUNS]
    return Earned(len(kept) / len(expected), f"right for {_RUNS} runs: {', '.join(kept)}", missed)


def _text(student: Student, case: Case, purpose: str) -> tuple[Any, dict[str, Any]]:
    _, report = _other_report(case, purpose)
    return student.call("about_report", function="write_analysis", report=report).require("write_analysis"), report


@claim("analysis.length", cell="analysis_figures", points=0.25, title="The analysis has 200 to 400 words")
def length(student: Student, case: Case) -> str:
    return check_length(_text(student, case, "analysis.first")[0])


@claim("analysis.quotes", cell="analysis_figures", points=0.75, title="The figures it quotes are the report's")
def analysis_quotes(student: Student, case: Case) -> str:
    about = [_text(student, case, f"analysis.quotes.{number}") for number in range(_RUNS)]
    evidence = [check_quotes(text, report) for text, report in about]
    check_typed([text for text, _ in about])
    return f"in {_RUNS} made-up runs; the first: {evidence[0]}"
