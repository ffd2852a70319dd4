"""The core commands from the outside: exit codes, one line an error, and what is written."""

import json
import os
import re
import resource
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from helpers.engine.backend import DEVICE
from tests.helpers.data.test_datasets import make_folder
from tests.trtlab.shell import fails, says
from tests.trtlab.tiny_models import SIZE, TinyNet, image_folder, images_npy, tiny_onnx
from trtlab.building.build import BuildOptions, build_engine
from trtlab.doctor import Diagnosis, Finding
from trtlab.images.preprocessing import load_batch


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engines")
    model = tiny_onnx(folder)
    build_engine(model, folder / "fp32.engine", BuildOptions())
    build_engine(model, folder / "fp16.engine", BuildOptions(precision="fp16"))
    build_engine(tiny_onnx(folder, dynamic=False, batch=2), folder / "fixed.engine", BuildOptions())
    images_npy(folder / "images.npy", 20)
    return folder


@pytest.fixture
def digits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """A data set of 12 random images and a tiny model in place of the lab's own, which take minutes."""
    monkeypatch.setattr("helpers.data.models.load_model", lambda name, data: TinyNet().eval())
    return labelled(sorted(image_folder(tmp_path / "digits", 12).iterdir()), 10, monkeypatch)


def labelled(paths: list[Path], outputs: int, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Have any name of a data set mean these images, whose labels are 0 to 9 in turn."""

    def images(split: str, limit: int | None = None, seed: int = 0) -> list[tuple[Path, int]]:
        return [(path, index % outputs) for index, path in enumerate(paths)][:limit]

    classes = [str(digit) for digit in range(outputs)]
    data = SimpleNamespace(name="digits", images=images, classes=classes, num_outputs=outputs)
    monkeypatch.setattr("helpers.data.datasets.load_dataset", lambda name: data)
    return data


def test_export_build_calibrate_compare_infer_and_evaluate_in_a_row(trtlab, digits, tmp_path: Path) -> None:
    model, tensor, engines = (
        tmp_path / "m.onnx",
        tmp_path / "c.npy",
        [tmp_path / "int8.engine", tmp_path / "fp32.engine"],
    )
    export = ("export", "--model", "resnet50", "--out", model, "--input-size", SIZE, "--simplify")
    says(trtlab(*export), "input batchx3x32x32", "relative error against PyTorch")
    calib = ("calib-data", "--out", tensor, "--n", 12, "--batch", 5, "--input-size", SIZE)
    says(trtlab(*calib), "float32 [12, 3, 32, 32]")
    int8 = ("--precision", "int8", "--calib-npy", tensor, "--max-batch", 4)
    says(
        trtlab("build", "--onnx", model, "--engine", engines[0], *int8),
        *(DEVICE, "batch 1 to 4, tuned for 4", "calibration: entropy, 12 images"),
    )
    says(trtlab("build", "--onnx", model, "--engine", engines[1]))
    compare = ("compare", "--a", engines[1], "--b", engines[0], "--calib-npy", tensor)
    says(trtlab(*compare), "cosine", "12 images", DEVICE)
    infer = ("infer", "--engine", engines[1], "--input", tmp_path / "digits", "--topk", 2)
    out = says(trtlab(*infer), "12 images", DEVICE)
    assert not re.search(r"class \d", out) and sum(".png" in line for line in out.splitlines()) == 12
    evaluate = ("evaluate", "--engine", *engines, "--num-samples", 12, "--output", tmp_path / "acc.json")
    says(trtlab(*evaluate), "loss against fp32.engine", DEVICE)
    found = json.loads((tmp_path / "acc.json").read_text())
    assert found["reference"] == str(engines[1]) and found["engine"]["device"] == DEVICE
    rows = {Path(row["engine"]).name: row for row in found["rows"]}
    assert rows["fp32.engine"]["loss"] is None and rows["int8.engine"]["num_samples"] == 12
    loss = rows["fp32.engine"]["top1"] - rows["int8.engine"]["top1"]
    assert rows["int8.engine"]["loss"]["points"] == pytest.approx(loss)


def test_build_says_where_the_model_is_that_an_explicit_build_made(trtlab, folder: Path, tmp_path: Path) -> None:
    build = ("build", "--onnx", tiny_onnx(folder), "--engine", tmp_path / "e.engine", "--precision", "int8+fp16")
    out = says(trtlab(*build, "--calib-npy", folder / "images.npy", "--explicit"), "calibration: entropy, 20 images")
    assert f"precision written into it: {tmp_path}/e.engine.onnx" in " ".join(out.split())


def test_doctor_names_the_engine_or_fails_without_one_and_says_why(trtlab, monkeypatch) -> None:
    says(trtlab("doctor"), DEVICE, "the lab uses the engine")
    why = Finding("Engine", "cannot start (TRT_LAB_ENGINE=foo): 'foo' is not an engine", ok=False)
    monkeypatch.setattr("trtlab.doctor.diagnose", lambda: Diagnosis([why], ""))
    code, out, err = trtlab("doctor")
    assert code == 2 and err == f"error: no engine: {why.found}\n" and "the lab uses" not in out


@pytest.mark.parametrize("command", ["grade", "grade-one", "regrade"])
def test_what_grades_says_how_to_install_its_packages(trtlab, monkeypatch, command: str) -> None:
    monkeypatch.setattr("trtlab.commands.course._NEEDED", ("no_such_package",))
    fails(trtlab(command, "--help"), "grading needs no_such_package, not installed here; run make setup")


def test_infer_names_an_unreadable_image_or_skips_it_when_asked(trtlab, folder: Path, tmp_path: Path) -> None:
    images = image_folder(tmp_path / "images", 3)
    (images / "01.png").write_bytes(b"broken")
    arguments = ("infer", "--engine", folder / "fp32.engine", "--input", images)
    fails(trtlab(*arguments), "01.png", "--skip-unreadable")
    says(trtlab(*arguments, "--skip-unreadable"), "2 images", "skipped: cannot read the image")
    for name in ("00.png", "02.png"):
        (images / name).write_bytes(b"broken")
    fails(trtlab(*arguments, "--skip-unreadable"), "none of the 3 images")


def test_engines_are_compared_on_samples_in_batches_that_both_take(trtlab, folder: Path) -> None:
    engines, data = [folder / "fp32.engine", folder / "fixed.engine"], ("--calib-npy", folder / "images.npy", "--n", 7)
    says(trtlab("compare", "--a", engines[0], "--b", engines[0], *data), "7 images", "100.00 %", "0.000e+00")
    both = ("compare", "--a", engines[0], "--b", engines[1], *data)
    says(trtlab(*both), "7 images")
    fails(trtlab(*both, "--batch", 4), "batch of 4", "fixed (2 to 2)")


@pytest.mark.parametrize("command", ["infer", "compare", "evaluate"])
@pytest.mark.parametrize("content", [None, b"", b"garbage" * 50])
def test_a_file_that_is_no_engine_is_one_line(
    trtlab, digits, folder: Path, tmp_path: Path, command: str, content: bytes | None
) -> None:
    engine = tmp_path / "e.engine"
    if content is not None:
        engine.write_bytes(content)
    rest = {
        "infer": ("--engine", engine, "--input", tmp_path / "digits"),
        "compare": ("--a", folder / "fp32.engine", "--b", engine, "--calib-npy", folder / "images.npy"),
        "evaluate": ("--engine", engine),
    }
    fails(trtlab(command, *rest[command]), "e.engine", "trtlab build" if not content else "build it again")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("infer", "--input", "{tmp}", "--engine", "{fp32}"), ("has no images",)),
        (("infer", "--input", "{tmp}/none", "--engine", "{fp32}"), ("does not exist",)),
        (("infer", "--input", "{tmp}", "--engine", "{fp32}", "--topk", "0"), ("--topk 0",)),
        (("infer", "--input", "{image}", "--engine", "{fp32}", "--batch-size", "64"), ("batch of 64", "1 to 32")),
        (("infer", "--input", "{image}", "--engine", "{fp32}", "--batch-size", "0"), ("--batch-size 0",)),
        (("compare", "--a", "{fp32}", "--b", "{fp32}", "--calib-npy", "{tmp}/none.npy"), ("none.npy", "calib-data")),
        (("compare", "--a", "{fp32}", "--b", "{fp32}", "--calib-npy", "{npy}", "--n", "0"), ("--n 0 cannot be",)),
        (("evaluate", "--engine", "{fp32}", "--num-samples", "0"), ("give 1 or more",)),
        (("evaluate", "--engine", "{fp32}", "--output", "/proc/nothing/here.json"), ("cannot write",)),
        (("calib-data", "--out", "{tmp}/c.npy", "--n", "0"), ("--n 0",)),
        (("calib-data", "--out", "{tmp}/c.npy", "--input-size", "0"), ("--input-size 0",)),
        (("calib-data", "--out", "{tmp}/c.npy", "--input-size", "9" * 12), ("--input-size 999999999999",)),
        (("calib-data", "--out", "{tmp}/c.npy", "--input-size", "9000"), ("crop 9000x9000 is impossible",)),
        (("calib-data", "--out", "{tmp}/c.npy", "--input-size", "32", "--crop", "32"), ("say the same",)),
        (("calib-data", "--out", "{tmp}/c.npy", "--n", "500"), ("has 12 images",)),
        (("calib-data", "--out", "/proc/c.npy", "--n", "5"), ("cannot write /proc/c.npy",)),
        (("export", "--out", "{tmp}/m.onnx", "--opset", "3"), ("opset 3",)),
        (("export", "--out", "/proc/m.onnx", "--input-size", "32"), ("cannot write /proc/m.onnx",)),
        (("build", "--onnx", "{tmp}/none.onnx", "--engine", "{tmp}/e.engine"), ("none.onnx", "trtlab export")),
        (("build", "--onnx", "{onnx}", "--engine", "{tmp}/e", "--precision", "fp64"), ("'fp64' is unknown",)),
        (("build", "--onnx", "{onnx}", "--engine", "{tmp}/e", "--precision", "int8"), ("needs calibration",)),
        (("build", "--onnx", "{onnx}", "--engine", "{tmp}/e", "--explicit"), ("--explicit does nothing to fp32",)),
        (("build", "--onnx", "{onnx}", "--engine", "/proc/e.engine"), ("cannot write /proc/e.engine",)),
        (
            ("build", "--onnx", "{onnx}", "--engine", "{tmp}/e", "--calib-count", "4"),
            ("--calib-count 4", "--calib-images"),
        ),
        (("bench", "--engine", "{fp32}", "--resize", "64"), ("--end-to-end",)),
    ],
)
def test_wrong_input_is_one_line_and_writes_nothing(
    trtlab, digits, folder: Path, tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    work, image = tmp_path / "work", next((tmp_path / "digits").iterdir())
    work.mkdir()
    places = {"tmp": work, "image": image, "onnx": tiny_onnx(folder)}
    places |= {"fp32": folder / "fp32.engine", "npy": folder / "images.npy"}
    fails(trtlab(*(argument.format(**places) for argument in arguments)), *words)
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("command", ["export", "calib-data", "build", "build int8"])
def test_a_full_disk_is_one_line_and_leaves_the_previous_files(
    trtlab, digits, folder: Path, tmp_path: Path, command: str
) -> None:
    out = tmp_path / "out" / "file"
    out.parent.mkdir()
    out.write_text("previous")
    build = ("build", "--onnx", tiny_onnx(folder), "--engine", out)
    arguments = {
        "export": ("export", "--out", out, "--input-size", SIZE),
        "calib-data": ("calib-data", "--out", out, "--n", 4, "--input-size", SIZE),
        "build": build,
        "build int8": (*build, "--precision", "int8", "--calib-npy", images_npy(tmp_path / "c.npy")),
    }[command]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))  # not less: pytest's own output may be such a file
    try:
        result = trtlab(*arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    fails(result, f"cannot write {out}", "free space")
    assert [path.read_text() for path in out.parent.iterdir() if path.suffix != ".cache"] == ["previous"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_command_in_one_line_and_with_128_plus_n(trtlab, monkeypatch, number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)  # whoever started pytest may ignore it
    monkeypatch.setattr("trtlab.doctor.diagnose", lambda: os.kill(os.getpid(), number))
    result = trtlab("doctor")
    signal.signal(number, before)
    assert result == (128 + number, "", f"interrupted by {number.name}; run the same command again to go on\n")


def test_names_of_ones_own_go_from_the_export_to_infer_and_decide_the_labels(
    trtlab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRT_LAB_DATA", str(tmp_path / "root"))
    names = [f"animal {index}" for index in range(10)][::-1]
    (tmp_path / "names.txt").write_text("\n".join(names))
    (tmp_path / "two.txt").write_text("a\nb")
    torch.save(TinyNet().eval().state_dict(), tmp_path / "w.pth")
    (tmp_path / "m.py").write_text("from tests.trtlab.tiny_models import TinyNet as make")
    common = ("export", "--model", tmp_path / "w.pth", "--arch", f"{tmp_path / 'm.py'}:make", "--input-size", SIZE)
    onnx, engine = tmp_path / "m.onnx", tmp_path / "e.engine"
    wrong = trtlab(*common, "--out", onnx, "--classes", tmp_path / "two.txt")
    fails(wrong, "two.txt names 2 classes", "has 10 outputs")
    assert not list(tmp_path.glob("*.onnx*"))
    says(trtlab(*common, "--out", onnx, "--classes", tmp_path / "names.txt"))
    says(trtlab("build", "--onnx", onnx, "--engine", engine))

    make_folder(tmp_path / "zoo" / "train", ["animal_3", "animal_9"], 5)
    folder = make_folder(tmp_path / "zoo" / "val", ["animal_3"], 2)
    images = sorted(make_folder(folder, ["animal_9"], 6).glob("*/*"))
    with torch.no_grad():
        best = TinyNet().eval()(torch.from_numpy(load_batch(images, SIZE))).argmax(1)
    right = [names[place].replace(" ", "_") == path.parent.name for path, place in zip(images, best, strict=True)]
    infer = ("infer", "--engine", engine, "--input", images[0], "--topk", 1)
    says(trtlab(*infer), names[best[0]])
    evaluate = ("evaluate", "--engine", engine, "--data", f"folder:{tmp_path / 'zoo'}")
    says(trtlab(*evaluate, "--output", tmp_path / "a.json"))
    assert json.loads((tmp_path / "a.json").read_text())["rows"][0]["top1"] == 100 * sum(right) / len(right) != 0


@pytest.mark.parametrize(
    ("written", "command"),
    [
        ("m.onnx", ("build", "--onnx", "m.onnx", "--engine", "m.onnx")),
        ("m.onnx", ("build", "--onnx", "m.onnx", "--engine", "new", "--precision", "int8", "--calib-cache", "m.onnx")),
        ("e.engine", ("bench", "--engine", "e.engine", "--output", "e.engine")),
        ("m.onnx", ("bench", "--ort", "./m.onnx", "--log", "m.onnx")),
        ("e.engine", ("profile", "--engine", "e.engine", "--output", "link")),
        ("w.pth", ("export", "--model", "w.pth", "--arch", "resnet18", "--out", "w.pth")),
    ],
)
def test_no_command_writes_over_a_file_that_it_reads(
    trtlab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    contents = {"m.onnx": b"a model", "e.engine": b"an engine", "w.pth": b"weights"}
    for name, content in contents.items():
        Path(name).write_bytes(content)
    Path("link").symlink_to("e.engine")
    fails(trtlab(*command), "is a file that the command reads; name another one to write")
    assert Path(written).read_bytes() == contents[written] and not Path("new").exists()


def test_bench_takes_the_only_batch_of_a_fixed_engine(trtlab, folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "b.json"
    says(trtlab("bench", "--engine", folder / "fixed.engine", "--iterations", 5, "--warmup", 1, "--output", output))
    assert [row["batch"] for row in json.loads(output.read_text())["rows"]] == [2]
