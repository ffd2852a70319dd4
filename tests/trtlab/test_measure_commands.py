"""The measuring commands from the outside: exit codes, one line an error, and what is written."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from helpers.engine.backend import DEVICE
from tests.trtlab.tiny_models import TinyNet, tiny_onnx
from trtlab.building.build import BuildOptions, build_engine
from trtlab.trtexec.log import parse_log_text

FIXTURES = Path(__file__).parent / "fixtures" / "trtexec"
BUDGET = ("latency-budget", "--pre-ms", 4, "--h2d-ms", 0.5, "--infer-ms", 2, "--d2h-ms", 0.1, "--post-ms", 1)
SHORT = ("--iterations", 5, "--warmup", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engines")
    model = tiny_onnx(folder)
    build_engine(model, folder / "fp32.engine", BuildOptions(max_batch=4, opt_batch=4))
    build_engine(model, folder / "fp16.engine", BuildOptions(precision="fp16", max_batch=4, opt_batch=4))
    return folder


def _fails(result: tuple[int, str, str], *words: str) -> None:
    """Exit code 2 and one line on stderr that holds the words."""
    code, out, err = result
    assert code == 2, (code, out, err)
    assert err.startswith("error: ") and err.count("\n") == 1 and "Traceback" not in err + out
    for word in words:
        assert word in err, (word, err)


@pytest.mark.slow
def test_bench_measures_engines_and_baselines_and_writes_json_and_log(
    trtlab, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = ModuleType("helpers.data.models")
    models.load_model = lambda name, data="digits": TinyNet().eval()
    monkeypatch.setitem(sys.modules, "helpers.data.models", models)
    onnx = next(folder.glob("*.onnx"))
    code, out, err = trtlab(
        "bench", "--engines", folder, "--pytorch", "resnet50", "--ort", onnx, "--batch-sizes", 1, 4, 8, *SHORT,
        "--output", tmp_path / "b.json", "--log", tmp_path / "b.log",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert DEVICE in out and "fp16 skips batch 8" in out
    written = json.loads((tmp_path / "b.json").read_text())
    names = {(row["name"], row["batch"]) for row in written["rows"]}
    assert names == {
        (name, batch) for name in ("fp16", "fp32", "pytorch-fp32", "onnxruntime-fp32") for batch in (1, 4)
    } | {(name, 8) for name in ("pytorch-fp32", "onnxruntime-fp32")}
    assert written["engine"]["device"] == DEVICE
    engine = next(row for row in written["rows"] if row["name"] == "fp16")
    assert engine["precision"] == "fp16" and engine["size_bytes"] == (folder / "fp16.engine").stat().st_size
    assert 20e6 < engine["peak_memory_bytes"] < 4e9
    assert len(parse_log_text((tmp_path / "b.log").read_text())) == len(written["rows"])


@pytest.mark.parametrize("form", ["--batch-sizes 2 3", "--batch-sizes 2,3", "--batch-sizes 2 --batch-sizes 3"])
def test_batch_sizes_can_be_given_in_every_form(trtlab, folder: Path, tmp_path: Path, form: str) -> None:
    engines = [folder / "fp32.engine", folder / "fp16.engine"]
    code, _, err = trtlab("bench", "--engine", *engines, *form.split(), *SHORT, "--output", tmp_path / "b.json")
    assert code == 0, err
    rows = json.loads((tmp_path / "b.json").read_text())["rows"]
    assert [(row["name"], row["batch"]) for row in rows] == [("fp32", 2), ("fp16", 2), ("fp32", 3), ("fp16", 3)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ("nothing to benchmark",)),
        (("--engine", "missing.engine"), ("missing.engine",)),
        (("--engines", "missing"), ("not a folder",)),
        (("--ort", "missing.onnx"), ("missing.onnx",)),
        (("--engine", "{fp32}", "--batch-sizes", "64"), ("no engine takes", "1 to 4")),
        (("--engine", "{fp32}", "--batch-sizes", "0"), ("--batch-sizes 0 cannot be; give 1 or more",)),
        (("--engine", "{fp32}", "--batch-sizes", "many"), ("whole numbers",)),
        (
            ("--engine", "{fp32}", "--iterations", "0"),
            (
                "--iterations",
                "cannot be; give 1 or more",
            ),
        ),
        (
            ("--engine", "{fp32}", "--iterations", "-3"),
            (
                "--iterations",
                "cannot be; give 1 or more",
            ),
        ),
        (("--engine", "{fp32}", "--warmup", "-1"), ("--warmup",)),
        (
            ("--engine", "{fp32}", "--duration", "1e308"),
            (
                "--duration",
                "at most 1,000,000,000",
            ),
        ),
        (("--engine", "{fp32}", "--limit", "nan"), ("--limit",)),
    ],
)
def test_bench_refuses_what_cannot_be_measured(trtlab, folder: Path, options: tuple, words: tuple) -> None:
    _fails(trtlab("bench", *(option.format(fp32=folder / "fp32.engine") for option in options)), *words)


def test_bench_of_garbage_is_one_line_and_writes_nothing(trtlab, tmp_path: Path) -> None:
    (tmp_path / "bad.engine").write_bytes(b"x" * 5000)
    (tmp_path / "bad.onnx").write_bytes(b"x" * 5000)
    for option in (("--engines", tmp_path), ("--ort", tmp_path / "bad.onnx")):
        _fails(trtlab("bench", *option, "--output", tmp_path / "b.json"), "bad.")
    assert not (tmp_path / "b.json").exists()


def test_bench_finds_out_before_measuring_that_its_results_cannot_be_kept(trtlab, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for option in (("--output", tmp_path), ("--log", tmp_path / "file" / "b.log")):
        _fails(trtlab("bench", "--engine", folder / "fp32.engine", *option), "cannot write")


def test_parse_log_writes_json_and_says_what_it_read(trtlab, tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    described = ("--model", "resnet50", "--precision", "int8", "--batch", 4)
    code, printed, _ = trtlab("parse-log", "--log", FIXTURES / "v8.6_int8.log", "--out", out, *described)
    assert code == 0 and "median 0.42 ms, p99 0.47 ms of 7,120 calls" in printed
    assert json.loads(out.read_text())["images_per_s"] == 4 * 2372.46
    code, printed, _ = trtlab("parse-log", "--log", FIXTURES / "profile.json", "--out", out, *described)
    assert code == 0 and "2 layers" in printed


def test_parse_log_of_a_failed_run_is_one_line_and_writes_nothing(trtlab, tmp_path: Path) -> None:
    described = ("--model", "m", "--precision", "p", "--batch", 1)
    failed = trtlab("parse-log", "--log", FIXTURES / "v10.16_failed.log", "--out", tmp_path / "o.json", *described)
    _fails(failed, "=== Performance summary ===", "deserializeCudaEngine")
    assert not (tmp_path / "o.json").exists()


def test_profile_prints_layers_the_roofline_and_findings(trtlab, folder: Path, tmp_path: Path) -> None:
    written = tmp_path / "profile.json"
    code, out, _ = trtlab(
        "profile", "--engine", folder / "fp32.engine", "--top", 2, "--iterations", 3, "--output", written
    )
    assert code == 0 and "roofline measured in this run" in out and out.count(" takes ") == 2
    assert json.loads(written.read_text())["layers"]
    _fails(trtlab("profile", "--engine", "missing.engine"), "missing.engine")


def test_trtexec_that_is_missing_points_to_bench(trtlab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("trtlab.trtexec.command._PLACES", ())
    _fails(trtlab("trtexec", "--onnx", "m.onnx", "--fp16"), "trtlab bench")


def test_trtexec_s_command_is_printed_where_it_is_not_installed(trtlab, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("trtlab.trtexec.command._PLACES", ())
    printed = trtlab("trtexec", "--print", "--onnx", "a model.onnx", "--log", "f.log", "--fp16", "--shapes=x:8x3x9x9")
    command = "trtexec '--onnx=a model.onnx' --warmUp=200 --iterations=10 --duration=3 --fp16 --shapes=x:8x3x9x9"
    assert printed == (0, f"{command} > f.log 2>&1\n", "")
    assert list(tmp_path.iterdir()) == []
    _fails(trtlab("trtexec", "--print"), "give --onnx M")


def test_trtexec_gets_the_options_that_trtlab_does_not_know(
    trtlab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "trtexec"
    script.write_text('#!/bin/sh\necho "got $*"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "m.onnx").touch()
    passed = ("--fp16", "--shapes=input:8x3x224x224", "--", "--verbose")
    code, out, _ = trtlab("trtexec", "--onnx", tmp_path / "m.onnx", "--log", tmp_path / "t.log", *passed)
    assert code == 0 and "--duration=3 --fp16 --shapes=input:8x3x224x224 --verbose" in out
    assert "--onnx=" in (tmp_path / "t.log").read_text()


def test_latency_budget_names_the_bottleneck_and_the_links_bound(trtlab) -> None:
    code, out, _ = trtlab(*BUDGET, "--transfer-bytes", 602112, "--link-mbps", 100)
    assert code == 0 and "bottleneck" in out and "megabit/s" in out and "It is the bound" in out
    _fails(trtlab(*BUDGET, "--link-mbps", 100), "go together")


@pytest.mark.parametrize("command", ["bench", "trtexec", "parse-log", "profile", "latency-budget"])
def test_the_help_of_every_command_ends_with_an_example(trtlab, command: str) -> None:
    code, out, _ = trtlab(command, "--help")
    assert code == 0 and f"Example: trtlab {command}" in out
