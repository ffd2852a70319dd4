"""The measuring commands from the outside: exit codes, one line an error, and what is written."""

import json
from pathlib import Path

import pytest

from helpers.engine.backend import DEVICE
from tests.trtlab.shell import fails, says
from tests.trtlab.tiny_models import TinyNet, tiny_onnx
from trtlab.building.build import BuildOptions, build_engine
from trtlab.trtexec.log import parse_log_text

FIXTURES = Path(__file__).parent / "fixtures" / "trtexec"
BUDGET = ("latency-budget", "--pre-ms", 4, "--h2d-ms", 0.5, "--infer-ms", 2, "--d2h-ms", 0.5, "--post-ms", 3)
SHORT = ("--iterations", 5, "--warmup", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engines")
    model = tiny_onnx(folder)
    build_engine(model, folder / "fp32.engine", BuildOptions(max_batch=4, opt_batch=4))
    build_engine(model, folder / "fp16.engine", BuildOptions(precision="fp16", max_batch=4, opt_batch=4))
    return folder


@pytest.mark.slow
def test_bench_measures_engines_and_baselines_and_writes_json_and_log(
    trtlab, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("helpers.data.models.load_model", lambda name, data="digits": TinyNet().eval())
    beside = ("--pytorch", "resnet50", "--ort", next(folder.glob("*.onnx")), "--batch-sizes", 1, 4, 8)
    kept = ("--output", tmp_path / "b.json", "--log", tmp_path / "b.log")
    code, out, err = trtlab("bench", "--engines", folder, *beside, *SHORT, *kept)
    assert (code, err) == (0, "") and DEVICE in out and "fp16 skips batch 8" in out
    written = json.loads((tmp_path / "b.json").read_text())
    rows = {(row["name"], row["batch"]): row for row in written["rows"]}
    baselines = ("pytorch-fp32", "onnxruntime-fp32")
    assert rows.keys() == {(name, batch) for name in ("fp16", "fp32", *baselines) for batch in (1, 4)} | {
        (name, 8) for name in baselines
    }
    assert written["engine"]["device"] == DEVICE
    engine = rows["fp16", 4]
    assert engine["precision"] == "fp16" and engine["size_bytes"] == (folder / "fp16.engine").stat().st_size
    assert 20e6 < engine["peak_memory_bytes"] < 4e9
    assert len(parse_log_text((tmp_path / "b.log").read_text())) == len(rows)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ("nothing to benchmark",)),
        (("--engine", "missing.engine"), ("missing.engine",)),
        (("--engines", "missing"), ("not a folder",)),
        (("--engines", "{bad}"), ("bad.engine",)),
        (("--ort", "{bad}/bad.onnx"), ("bad.onnx",)),
        (("--engine", "{fp32}", "--batch-sizes", "64"), ("no engine takes", "1 to 4")),
        (("--engine", "{fp32}", "--duration", "1e308"), ("--duration", "at most 1,000,000,000")),
        (("--engine", "{fp32}", "--log", "{bad}"), ("cannot write {bad}: it is a folder",)),
        (("--engine", "{fp32}", "--log", "{bad}/bad.onnx/b.log"), ("cannot write",)),
        (
            ("--engine", "{fp32}", "--shapes", "input:1x3x32x32", "--batch-sizes", "1", "4", "8", "16", "32"),
            ("drop --batch-sizes",),
        ),
    ],
)
def test_bench_refuses_what_cannot_be_measured_or_kept(
    trtlab, folder: Path, tmp_path: Path, options: tuple, words: tuple
) -> None:
    (tmp_path / "bad.engine").write_bytes(b"x" * 5000)
    (tmp_path / "bad.onnx").write_bytes(b"x" * 5000)
    names = {"fp32": folder / "fp32.engine", "bad": tmp_path}
    asked = ("--output", tmp_path / "b.json", *(option.format(**names) for option in options))
    fails(trtlab("bench", *asked), *(word.format(**names) for word in words))
    assert not (tmp_path / "b.json").exists()


@pytest.mark.parametrize(
    ("log", "said"),
    [("v8.6_int8.log", "median 0.42 ms, p99 0.47 ms of 7,120 calls"), ("profile.json", "2 layers")],
)
def test_parse_log_writes_json_and_says_what_it_read(trtlab, tmp_path: Path, log: str, said: str) -> None:
    says(trtlab("parse-log", "--log", FIXTURES / log, "--out", tmp_path / "run.json", "--batch", 4), said)
    assert json.loads((tmp_path / "run.json").read_text())


def test_parse_log_of_a_failed_run_is_one_line_and_writes_nothing(trtlab, tmp_path: Path) -> None:
    failed = trtlab("parse-log", "--log", FIXTURES / "v10.16_failed.log", "--out", tmp_path / "o.json")
    fails(failed, "=== Performance summary ===", "deserializeCudaEngine")
    assert not (tmp_path / "o.json").exists()


def test_profile_prints_layers_the_roofline_and_findings(trtlab, folder: Path, tmp_path: Path) -> None:
    written = tmp_path / "profile.json"
    profile = ("profile", "--engine", folder / "fp32.engine", "--top", 2, "--iterations", 3, "--output", written)
    assert says(trtlab(*profile), "roofline measured in this run").count(" takes ") == 2
    assert json.loads(written.read_text())["layers"]
    fails(trtlab("profile", "--engine", "missing.engine"), "missing.engine")


def test_trtexec_s_command_is_printed_where_it_is_not_installed(trtlab, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("trtlab.trtexec.command._PLACES", ())
    asked = ("--onnx", "a model.onnx", "--log", "f.log", "--fp16", "--shapes=x:8x3x9x9")
    command = "trtexec '--onnx=a model.onnx' --warmUp=200 --iterations=10 --duration=3 --fp16 --shapes=x:8x3x9x9"
    assert trtlab("trtexec", "--print", *asked) == (0, f"{command} > f.log 2>&1\n", "")
    fails(trtlab("trtexec", *asked), "trtlab bench")
    fails(trtlab("trtexec", "--print"), "give --onnx M")
    assert list(tmp_path.iterdir()) == []


def test_trtexec_gets_the_options_that_trtlab_does_not_know(
    trtlab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "trtexec"
    script.write_text('#!/bin/sh\necho "got $*"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "m.onnx").touch()
    passed = ("--fp16", "--shapes=input:8x3x224x224", "--", "--verbose")
    asked = ("trtexec", "--onnx", tmp_path / "m.onnx", "--log", tmp_path / "t.log", *passed)
    says(trtlab(*asked), "--duration=3 --fp16 --shapes=input:8x3x224x224 --verbose")
    assert "--onnx=" in (tmp_path / "t.log").read_text()


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ((), "pre takes 40 % of it; with all stages overlapped it alone bounds the rate: at most 250 batches/s."),
        (
            ("--transfer-bytes", 1_250_000, "--link-mbps", 100),
            "100 ms for 1,250,000 bytes at 100 megabit/s: at most 10 batches/s. It is the bound,",
        ),
        (
            ("--transfer-bytes", 1000, "--link-mbps", 10_000),
            "at most 1.25e+06 batches/s, more than pre allows; the link is not the bound.",
        ),
    ],
)
def test_latency_budget_gives_shares_bottleneck_and_bounds(trtlab, link: tuple, said: str) -> None:
    out = says(trtlab(*BUDGET, *link), said, "takes 10 ms, which is 100 batches/s.")
    shares = [line.split()[5] for line in out.splitlines() if "│" in line]
    assert shares == ["40.0", "5.0", "20.0", "5.0", "30.0", "100.0"] and out.count("bottleneck") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--pre-ms", 4), "--h2d-ms, --infer-ms, --d2h-ms, --post-ms missing; give all five times"),
        ([part for flag in BUDGET[1::2] for part in (flag, 0)], "stages of 0, 0, 0, 0, 0 ms make no budget to split"),
        ((*BUDGET[1:], "--link-mbps", 100), "go together"),
        ((*BUDGET[1:], "--transfer-bytes", 5, "--link-mbps", 0), "go together, both more than 0"),
    ],
)
def test_latency_budget_refuses_times_that_make_none(trtlab, arguments: tuple, said: str) -> None:
    fails(trtlab("latency-budget", *arguments), said)


@pytest.mark.parametrize(
    "text", ['{"rows": []}', "[1]", '{"median_ms": {"decode": "x"}}', '{"median_ms": 3}', '{"median_ms": {"infer": 1}}']
)
def test_a_file_that_is_no_measurement_is_refused_with_what_to_run(trtlab, tmp_path: Path, text: str) -> None:
    (tmp_path / "e.json").write_text(text)
    fails(trtlab("latency-budget", "--from", tmp_path / "e.json"), "has no times", "bench --end-to-end")
