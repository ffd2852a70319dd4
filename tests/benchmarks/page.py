"""The part of docs/cpu-engine.md that `make bench` makes from docs/results/bench.json; a test compares both."""

import re
from pathlib import Path
from typing import Any

from tests.benchmarks.fidelity import TOLERANCE

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "cpu-engine.md"
BENCH = ROOT / "docs" / "results" / "bench.json"

_BETWEEN = re.compile(r"(<!-- made by make bench -->\n).*?(<!-- end -->\n)", re.S)
_IDLE_LOAD = 0.5  # of the processor's cores
_MODELS = {"resnet50": "ResNet-50", "small": "the small net"}
_NAMES = {"minmax": "min-max", "entropy": "entropy", "entropy2": "entropy-2"}


def in_page(page: str, bench: dict[str, Any]) -> str:
    """Return the page with the section of these measurements in its place."""
    return _BETWEEN.sub(lambda found: f"{found[1]}{section(bench)}{found[2]}", page)


def section(bench: dict[str, Any]) -> str:
    """Return the measurements as Markdown, under the machine, the date and the command."""
    where, about = bench["machine"], bench["calibration"]
    ratio, ms, cost = bench["api_overhead"], bench["api_overhead_ms"], bench["stream_cost"]
    busy = where["load"] > _IDLE_LOAD * where["cores"]
    said = (
        f"Measured on {where['cores']} cores of an {where['name']}, {bench['engine']['device'].split(',')[1].strip()}, "
    )
    said += f"{bench['date']}, by `{bench['command']}`"
    if busy:
        said += f". **The machine was busy (load {where['load']:g}): the times and ratios are to be measured again**"
    equal = ", ".join(f"{_NAMES[kind]} {found['equal']} of {found['of']}" for kind, found in bench["scales"].items())
    rows = [
        (
            "the API over OpenVINO's own inference of the same model, paired (median)",
            f"{ratio['resnet50']:.3f} (ResNet-50, {ms['resnet50']['openvino_ms']:.1f} ms), "
            f"{ratio['one_millisecond']:.3f} (a net of {ms['one_millisecond']['openvino_ms']:.2f} ms)",
        ),
        (
            f"entropy calibration: onnxruntime's time over ours, {about['entropy_images']} images",
            f"{bench['calibration_speedup']:.1f} "
            f"({about['onnxruntime_seconds']:.1f} s over {about['entropy_seconds']:.1f} s)",
        ),
        (
            f"entropy calibration over FP32 inference, {about['inference_images']} images",
            f"{bench['calibration_over_inference']:.2f}",
        ),
        (f"scales within {TOLERANCE:g} of those that TensorRT 8.6.0 wrote for the lab's model", equal),
        (
            "empty work enqueued and awaited, over a round trip between two threads",
            f"{cost['on_the_caller']:.2f} as an inference (it starts on the calling thread), "
            f"{cost['on_the_worker']:.2f} as a copy",
        ),
    ]
    rows += [_streams_row(name, found) for name, found in bench["streams"].items()]
    table = "\n".join(f"| {what} | {found} |" for what, found in rows)
    return f"{said}:\n\n| | |\n|---|---|\n{table}\n"


def _streams_row(name: str, found: dict[str, Any]) -> tuple[str, str]:
    """Return the row of one model and precision, such as `resnet50_fp16`."""
    model, precision = name.split("_")
    low, high = found["interval"]
    one, two, theirs = (found[f"{way}_images_per_s"] for way in ("one_context", "two_contexts", "openvino"))
    return (
        f"two contexts over OpenVINO's throughput mode, paired: {_MODELS[model]} in {precision.upper()}, batch 1",
        f"{found['ratio']:.2f} (95 %: {low:.2f} to {high:.2f}); images/s: one context {one:,.0f}, two {two:,.0f}, "
        f"that mode {theirs:,.0f}",
    )
