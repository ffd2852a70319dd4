"""Takes a dozen models of many kinds through every stage and writes the list in docs/models.md: `make models`.

Every stage is the command line in this process; a stage that is refused shows its one line below the list.
"""

import sys
import tempfile
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torchvision

from helpers.engine.backend import DEVICE
from helpers.tools.files import atomic_write
from tests.tools import own_models
from trtcpu.errors import LabError
from trtlab.cli import app
from trtlab.engines.inference import InferenceEngine
from trtlab.engines.tensors import examples

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "models.md"
START, END = "<!-- made by make models -->", "<!-- end -->"
STAGES = ("export", "build", "INT8", "bench", "compare", "profile", "report")
CALIBRATION_SAMPLES = 32
_TEXT = "{}:1x4:4x16:8x48"


@dataclass(frozen=True)
class Entry:
    """One model: its row's name, what `trtlab export` is given, its profile's shapes, and a file to make first."""

    name: str
    export: tuple[str, ...]
    shapes: tuple[str, ...] = ()
    make: Callable[[Path], None] = lambda folder: None


def _own(function: str, *inputs: str) -> tuple[str, ...]:
    given = [argument for text in inputs for argument in ("--input", text)]
    return ("--model", f"{own_models.__file__}:{function}", *given)


def _random(name: str) -> tuple[str, ...]:
    return ("--model", name, "--weights", "none")


def _save_weights(folder: Path) -> None:
    torch.manual_seed(0)
    torch.save(torchvision.models.resnet18(num_classes=7).state_dict(), folder / "weights.pth")


def _save_scripted(folder: Path) -> None:
    torch.jit.script(own_models.small_colour()).save(str(folder / "scripted.pt"))


def _save_program(folder: Path) -> None:
    shapes = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(own_models.mlp(), (torch.zeros(2, 64),), dynamic_shapes=shapes)
    torch.export.save(program, str(folder / "program.pt2"))


ENTRIES = (
    Entry("mobilenet_v3_small", _random("mobilenet_v3_small")),
    Entry("efficientnet_b0", _random("efficientnet_b0")),
    Entry("vit_b_32", _random("vit_b_32")),
    Entry("MLP", _own("mlp", "features:batch,64")),
    Entry("grey 28×28 CNN", (*_own("grey_digits"), "--channels", "1", "--input-size", "28")),
    Entry("3×32×32 CNN, input `pixels`", _own("small_colour", "pixels:batch,3,32,32")),
    Entry(
        "dynamic height and width",
        _own("patches", "image:batch,3,height=48,width=64"),
        ("image:1x3x32x32:4x3x48x64:8x3x96x96",),
    ),
    Entry("two inputs", _own("two_inputs", "image:batch,3,64,64", "facts:batch,5")),
    Entry(
        "token ids, dynamic length", _own("tokens", "ids:batch,length:int64"), ("ids:1x4:4x32:8x128",)
    ),
    Entry(
        "BERT encoder, three inputs",
        _own("bert", *(f"{name}:batch,length=16:int64" for name in ("input_ids", "attention_mask", "token_type_ids"))),
        (_TEXT.format("input_ids"), _TEXT.format("attention_mask"), _TEXT.format("token_type_ids")),
    ),
    Entry("a state dict", ("--model", "{}/weights.pth", "--arch", "resnet18"), make=_save_weights),
    Entry(
        "a scripted module", ("--model", "{}/scripted.pt", "--input", "input:batch,3,32,32"), make=_save_scripted
    ),
    Entry("an exported program (.pt2)", ("--model", "{}/program.pt2"), make=_save_program),
)  # fmt: skip


def row(entry: Entry, folder: Path) -> dict[str, str]:
    """Return what came of each stage: "✓", or the line of its refusal."""
    entry.make(folder)
    fp32, int8 = folder / "fp32.engine", folder / "int8.engine"
    shapes = [argument for text in entry.shapes for argument in ("--shapes", text)]
    if not entry.shapes:
        shapes = ["--opt-batch", "4", "--max-batch", "8"]
    export = [argument.format(folder) for argument in entry.export]
    onnx, samples = folder / "m.onnx", folder / "samples.npz"
    found = {"export": stage("export", *export, "--out", onnx)}
    found["build"] = stage("build", "--onnx", onnx, "--engine", fp32, *shapes)
    if found["build"] != "✓":
        return {stage: found.get(stage, "no engine") for stage in STAGES}
    with InferenceEngine(fp32) as engine:
        np.savez(samples, **examples(engine.inputs, CALIBRATION_SAMPLES, seed=7))
    calibrated = ("--precision", "int8", "--calib-npy", samples)
    found["INT8"] = stage("build", "--onnx", onnx, "--engine", int8, *shapes, *calibrated)
    engines = [path for path in (fp32, int8) if path.exists()]
    times = ("--batch-sizes", "1", "4", "--iterations", "5", "--warmup", "1", "--output", folder / "latency.json")
    found["bench"] = stage("bench", "--engine", *engines, *times)
    found["compare"] = stage("compare", "--a", fp32, "--b", engines[-1], "--calib-npy", samples)
    found["profile"] = stage("profile", "--engine", fp32, "--iterations", "3", "--top", "1")
    found["report"] = stage("report", "--results", folder)
    return found


def stage(*arguments: object) -> str:
    """Run one command of `trtlab`; return "✓", or the line of its refusal."""
    try:
        words = [str(argument) for argument in arguments]
        app(words, exit_on_error=False, print_error=False, result_action="return_value")
        return "✓"
    except LabError as error:
        return " ".join(str(error).split())


def page(rows: dict[str, dict[str, str]]) -> str:
    """Return the models that went through all stages as Markdown, and below them a line for each refusal."""
    whole = [name for name, found in rows.items() if all(found[stage] == "✓" for stage in STAGES)]
    text = f"`make models` took these through {', '.join(STAGES)} on {DEVICE}: {'; '.join(whole)}."
    refused = [
        f"- {name}, {stage}: {found[stage]}" for name, found in rows.items() for stage in STAGES if found[stage] != "✓"
    ]
    return "\n".join([*textwrap.wrap(text, 130), *(["", *refused] if refused else [])])


def main() -> None:
    """Write the list into docs/models.md between its two marks."""
    rows = {}
    for entry in ENTRIES:
        with tempfile.TemporaryDirectory() as folder:
            print(f"— {entry.name}", file=sys.stderr, flush=True)
            rows[entry.name] = row(entry, Path(folder))
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    atomic_write(PAGE, f"{before}{START}\n{page(rows)}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
