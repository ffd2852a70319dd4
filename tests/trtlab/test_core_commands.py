"""The core commands from the outside: exit codes, one line an error, and what is written."""

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from helpers.engine.backend import DEVICE
from tests.trtlab.tiny_models import SIZE, TinyNet, image_folder, images_npy, tiny_onnx
from trtcpu.errors import DataError
from trtlab.building.build import BuildOptions, build_engine
from trtlab.doctor import Diagnosis, Finding


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
    paths = sorted(image_folder(tmp_path / "digits", 12).iterdir())

    def images(split: str, limit: int | None = None, seed: int = 0) -> list[tuple[Path, int]]:
        return [(path, index % 10) for index, path in enumerate(paths)][:limit]

    classes = [str(digit) for digit in range(10)]
    data = SimpleNamespace(name="digits", images=images, classes=classes, num_outputs=10)
    monkeypatch.setattr("helpers.data.datasets.load_dataset", lambda name: data)
    monkeypatch.setattr("helpers.data.models.load_model", lambda name, data: TinyNet().eval())
    return data


def _fails(result: tuple[int, str, str], *words: str) -> None:
    """Exit code 2 and one line on stderr that holds the words."""
    code, out, err = result
    assert code == 2, (code, out, err)
    assert err.startswith("error: ") and err.count("\n") == 1 and "Traceback" not in err + out
    assert all(word in err for word in words), err


def test_export_build_calibrate_compare_and_evaluate_in_a_row(trtlab, digits, tmp_path: Path) -> None:
    model, tensor = tmp_path / "m.onnx", tmp_path / "c.npy"
    code, out, _ = trtlab("export", "--model", "resnet50", "--out", model, "--input-size", SIZE, "--simplify")
    assert code == 0 and "input batchx3x32x32" in out and "relative error against PyTorch" in out
    code, out, _ = trtlab("calib-data", "--out", tensor, "--n", 12, "--batch", 5, "--input-size", SIZE)
    assert code == 0 and "float32 [12, 3, 32, 32]" in out and np.load(tensor).shape == (12, 3, SIZE, SIZE)
    engines = [tmp_path / "int8.engine", tmp_path / "fp32.engine"]
    code, out, _ = trtlab(
        "build", "--onnx", model, "--engine", engines[0], "--precision", "int8", "--calib-npy", tensor, "--max-batch", 4
    )
    assert code == 0 and DEVICE in out
    assert "batch 1 to 4, tuned for 4" in out and "calibration: entropy, 12 images" in out
    assert trtlab("build", "--onnx", model, "--engine", engines[1])[0] == 0
    code, out, _ = trtlab("compare", "--a", engines[1], "--b", engines[0], "--calib-npy", tensor)
    assert code == 0 and "cosine" in out and "12 images" in out and DEVICE in out
    code, out, _ = trtlab("evaluate", "--engine", *engines, "--num-samples", 12, "--output", tmp_path / "acc.json")
    assert code == 0 and "loss against fp32.engine" in out and DEVICE in out
    found = json.loads((tmp_path / "acc.json").read_text())
    assert found["reference"] == str(engines[1]) and found["engine"]["device"] == DEVICE
    rows = {Path(row["engine"]).name: row for row in found["rows"]}
    assert rows["fp32.engine"]["loss"] is None and rows["int8.engine"]["num_samples"] == 12
    loss = rows["fp32.engine"]["top1"] - rows["int8.engine"]["top1"]
    assert rows["int8.engine"]["loss"]["points"] == pytest.approx(loss)


def test_build_says_where_the_model_is_that_an_explicit_build_made(trtlab, folder: Path, tmp_path: Path) -> None:
    code, out, _ = trtlab(
        "build", "--onnx", tiny_onnx(folder), "--engine", tmp_path / "e.engine", "--precision", "int8+fp16",
        "--calib-npy", folder / "images.npy", "--explicit",
    )  # fmt: skip
    assert code == 0 and f"precision written into it: {tmp_path}/e.engine.onnx" in " ".join(out.split())
    assert (tmp_path / "e.engine.onnx").is_file() and "calibration: entropy, 20 images" in out


def test_doctor_always_ends_well(trtlab) -> None:
    code, out, err = trtlab("doctor")
    assert code == 0 and err == "" and DEVICE in out and "the lab uses the engine" in out


def test_doctor_without_an_engine_fails_and_says_why(trtlab, monkeypatch) -> None:
    why = Finding("Engine", "cannot start (TRT_LAB_ENGINE=foo): 'foo' is not an engine", ok=False)
    monkeypatch.setattr("trtlab.doctor.diagnose", lambda: Diagnosis([why], ""))
    code, out, err = trtlab("doctor")
    assert code == 2 and err == f"error: no engine: {why.found}\n" and "the lab uses" not in out


@pytest.mark.parametrize(
    "size, said", [(0, "--input-size 0"), (10**12, f"--input-size {10**12}"), (9000, "crop 9000 is impossible")]
)
def test_calib_data_of_an_impossible_size_is_one_line(trtlab, tmp_path: Path, size: int, said: str) -> None:
    code, _, err = trtlab("calib-data", "--out", tmp_path / "c.npy", "--input-size", size)
    assert code == 2 and said in err and err.count("\n") == 1 and not list(tmp_path.iterdir())


def test_infer_shows_class_names_of_the_export(trtlab, digits, tmp_path: Path) -> None:
    trtlab("export", "--out", tmp_path / "m.onnx", "--input-size", SIZE)
    trtlab("build", "--onnx", tmp_path / "m.onnx", "--engine", tmp_path / "e.engine")
    code, out, _ = trtlab("infer", "--engine", tmp_path / "e.engine", "--input", tmp_path / "digits", "--topk", 2)
    assert code == 0 and DEVICE in out and "12 images" in out and not re.search(r"class \d", out)
    assert sum(".png" in line for line in out.splitlines()) == 12


def test_infer_probabilities_are_pytorchs(trtlab, folder: Path, tmp_path: Path) -> None:
    import torch

    from trtlab.images.preprocessing import load_batch

    image = sorted(image_folder(tmp_path / "images", 1).iterdir())[0]
    code, out, _ = trtlab("infer", "--engine", folder / "fp32.engine", "--input", image, "--topk", 1)
    with torch.no_grad():
        probabilities = TinyNet().eval()(torch.from_numpy(load_batch([image], SIZE))).softmax(1)[0]
    best = int(probabilities.argmax())
    assert code == 0 and f"class {best} {100 * probabilities[best]:.1f} %" in out


def test_infer_names_an_unreadable_image_or_skips_it_when_asked(trtlab, folder: Path, tmp_path: Path) -> None:
    images = image_folder(tmp_path / "images", 3)
    (images / "01.png").write_bytes(b"broken")
    arguments = ("infer", "--engine", folder / "fp32.engine", "--input", images)
    _fails(trtlab(*arguments), "01.png", "--skip-unreadable")
    code, out, _ = trtlab(*arguments, "--skip-unreadable")
    assert code == 0 and "2 images" in out and "skipped: cannot read the image" in out
    for name in ("00.png", "02.png"):
        (images / name).write_bytes(b"broken")
    _fails(trtlab(*arguments, "--skip-unreadable"), "none of the 3 images")


def test_compare_of_an_engine_with_itself_shows_no_drift(trtlab, folder: Path) -> None:
    engine = folder / "fp32.engine"
    code, out, _ = trtlab("compare", "--a", engine, "--b", engine, "--calib-npy", folder / "images.npy", "--n", 7)
    assert code == 0 and "7 images" in out and "100.00 %" in out and "0.000e+00" in out


def test_an_engine_of_a_fixed_batch_is_compared_with_a_dynamic_one(trtlab, folder: Path) -> None:
    arguments = ("compare", "--a", folder / "fp32.engine", "--b", folder / "fixed.engine")
    code, out, _ = trtlab(*arguments, "--calib-npy", folder / "images.npy", "--n", 5)
    assert code == 0 and "5 images" in out
    _fails(trtlab(*arguments, "--calib-npy", folder / "images.npy", "--batch", 4), "batch of 4", "fixed (2 to 2)")


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
    _fails(trtlab(command, *rest[command]), "e.engine", "trtlab build" if not content else "build it again")


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
        (("calib-data", "--out", "{tmp}/c.npy", "--n", "500"), ("has 12 images",)),
        (("calib-data", "--out", "/proc/c.npy", "--n", "5"), ("cannot write /proc/c.npy",)),
        (("export", "--out", "{tmp}/m.onnx", "--opset", "3"), ("opset 3",)),
        (("export", "--out", "/proc/m.onnx", "--input-size", "32"), ("cannot write /proc/m.onnx",)),
        (("build", "--onnx", "{tmp}/none.onnx", "--engine", "{tmp}/e.engine"), ("none.onnx", "trtlab export")),
        (("build", "--onnx", "{onnx}", "--engine", "{tmp}/e", "--precision", "fp64"), ("'fp64' is unknown",)),
        (("build", "--onnx", "{onnx}", "--engine", "{tmp}/e", "--precision", "int8"), ("needs calibration",)),
        (("build", "--onnx", "{onnx}", "--engine", "{tmp}/e", "--explicit"), ("--explicit does nothing to fp32",)),
        (("build", "--onnx", "{onnx}", "--engine", "/proc/e.engine"), ("cannot write /proc/e.engine",)),
    ],
)
def test_wrong_input_is_one_line_and_writes_nothing(
    trtlab, digits, folder: Path, tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    Image.new("RGB", (40, 40)).save(tmp_path / "image.png")
    places = {
        "tmp": work,
        "fp32": folder / "fp32.engine",
        "npy": folder / "images.npy",
        "onnx": tiny_onnx(folder),
        "image": tmp_path / "image.png",
    }
    _fails(trtlab(*(argument.format(**places) for argument in arguments)), *words)
    assert list(work.iterdir()) == []


@contextlib.contextmanager
def no_room() -> Iterator[None]:
    """Files of this process cannot grow beyond 4 KiB, as on a full disk; pytest's own output may be such a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


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
    with no_room():
        result = trtlab(*arguments)
    _fails(result, f"cannot write {out}", "free space")
    assert [path.read_text() for path in out.parent.iterdir() if path.suffix != ".cache"] == ["previous"]


def test_a_data_set_that_cannot_be_had_is_one_line(trtlab, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(name: str) -> None:
        raise DataError("cannot download imagenette: no connection")

    monkeypatch.setattr("helpers.data.datasets.load_dataset", offline)
    _fails(trtlab("evaluate", "--engine", folder / "fp32.engine", "--data", "imagenette"), "no connection")


@pytest.mark.parametrize("command", ["doctor", "export", "build", "calib-data", "infer", "compare", "evaluate"])
def test_help_shows_an_example(trtlab, command: str) -> None:
    code, out, _ = trtlab(command, "--help")
    assert code == 0 and f"Example: trtlab {command}" in out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_a_build_leaves_nothing_says_so_and_exits_128_plus_n(
    folder: Path, tmp_path: Path, number: signal.Signals
) -> None:
    script = tmp_path / "slow.py"
    script.write_text(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it,
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # and what nohup starts, this one
        "from trtlab import cli\n"
        "from trtlab.building import calibrate\n"
        "upload = calibrate._BatchFeeder._upload\n"
        "def slow(self, name, batch):\n"
        "    print('calibrating', flush=True); time.sleep(0.5); upload(self, name, batch)\n"
        "calibrate._BatchFeeder._upload = slow\n"
        "sys.argv = ['trtlab', 'build', '--onnx', sys.argv[1], '--engine', sys.argv[2], '--precision', 'int8',\n"
        "            '--calib-npy', sys.argv[3]]\n"
        "cli.main()\n"
    )
    out = tmp_path / "out"
    images = images_npy(tmp_path / "many.npy", 160)
    command = [sys.executable, str(script), str(tiny_onnx(folder)), str(out / "e.engine"), str(images)]
    root = str(Path(__file__).parents[2])
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=root, env={**os.environ, "PYTHONPATH": root}, **pipes) as process:
        assert process.stdout.readline() == "calibrating\n"
        time.sleep(0.2)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert err == f"interrupted by {number.name}; run the same command again to go on\n"
    assert not out.exists()


def test_names_of_ones_own_go_from_the_export_to_infer_and_decide_the_labels(
    trtlab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from tests.helpers.data.test_datasets import make_folder
    from trtlab.images.preprocessing import Preprocessing

    monkeypatch.setenv("TRT_LAB_DATA", str(tmp_path / "root"))
    names = [f"animal {index}" for index in range(10)][::-1]
    (tmp_path / "names.txt").write_text("\n".join(names))
    torch.save(TinyNet().eval().state_dict(), tmp_path / "w.pth")
    (tmp_path / "m.py").write_text("from tests.trtlab.tiny_models import TinyNet\ndef make(): return TinyNet()\n")
    common = ("export", "--model", tmp_path / "w.pth", "--arch", f"{tmp_path / 'm.py'}:make", "--input-size", SIZE)
    _fails(trtlab(*common, "--out", tmp_path / "x.onnx", "--classes", tmp_path / "none"), "cannot read the class names")
    (tmp_path / "two.txt").write_text("a\nb")
    wrong = trtlab(*common, "--out", tmp_path / "x.onnx", "--classes", tmp_path / "two.txt")
    _fails(wrong, "two.txt names 2 classes", "has 10 outputs")
    assert not list(tmp_path.glob("x.onnx*"))
    assert trtlab(*common, "--out", tmp_path / "m.onnx", "--classes", tmp_path / "names.txt")[0] == 0
    engine = tmp_path / "e.engine"
    assert trtlab("build", "--onnx", tmp_path / "m.onnx", "--engine", engine)[0] == 0

    make_folder(tmp_path / "zoo" / "train", ["animal_3", "animal_9"], 5)
    folder = make_folder(tmp_path / "zoo" / "val", ["animal_3"], 2)
    images = sorted(make_folder(folder, ["animal_9"], 6).glob("*/*"))
    with torch.no_grad():
        best = TinyNet().eval()(torch.from_numpy(Preprocessing.usual(3, SIZE, SIZE).load_batch(images))).argmax(1)
    right = [names[place].replace(" ", "_") == path.parent.name for path, place in zip(images, best, strict=True)]
    _, out, _ = trtlab("infer", "--engine", engine, "--input", images[0], "--topk", 1)
    assert names[best[0]] in out
    _, out, _ = trtlab(
        "infer", "--engine", engine, "--input", images[0], "--topk", 1, "--classes", _reversed(tmp_path / "names.txt")
    )
    assert names[::-1][best[0]] in out
    data = ("--data", f"folder:{tmp_path / 'zoo'}")
    code, out, err = trtlab("evaluate", "--engine", engine, *data, "--output", tmp_path / "a.json")
    assert code == 0, err
    assert json.loads((tmp_path / "a.json").read_text())["rows"][0]["top1"] == 100 * sum(right) / len(right) != 0
    wrong = trtlab("evaluate", "--engine", engine, *data, "--classes", tmp_path / "two.txt")
    _fails(wrong, "two.txt names 2 classes, but e has 10 outputs")
    make_folder(tmp_path / "zoo" / "train", ["tapir"], 5)
    _fails(trtlab("evaluate", "--engine", engine, *data), "tapir of the data is not among them", "--classes FILE")


def _reversed(path: Path) -> Path:
    """Write the lines of a file in reverse order beside it."""
    other = path.with_name("reversed.txt")
    other.write_text("\n".join(path.read_text().split("\n")[::-1]))
    return other
