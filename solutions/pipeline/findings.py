"""What the numbers say, computed from them: sentences for the report, and where throughput saturates."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from solutions.pipeline.results import BASELINE, AccuracyRow, Results, Row, order_names, pretty_name

__all__ = ["SATURATION_GAIN", "Saturation", "best_row", "findings", "headline", "saturation"]

SATURATION_GAIN = 0.10
"""Throughput counts as saturated where doubling the batch gains less than this share."""

DISTURBED_TAIL = 1.25
"""A quiet machine's 95th percentile lies within a few percent of its median; above this ratio the run was disturbed."""


@dataclass(frozen=True)
class Saturation:
    """Where throughput stops growing: the batch, the rate there, and the gain of the last doubling measured after it.

    `gain` is None where the largest measured batch still gained (not saturated in the measured range).
    """

    batch: int
    images_per_s: float
    gain: float | None


def saturation(points: Sequence[tuple[int, float]]) -> Saturation | None:
    """Return the smallest batch after which no doubling gains `SATURATION_GAIN`; None with fewer than two batches.

    Args:
        points: (batch, images/s), ascending by batch.
    """
    if len(points) < 2:
        return None
    gains = [_gain_per_doubling(low, high) for low, high in zip(points, points[1:], strict=False)]
    place = len(gains)
    while place and gains[place - 1] < SATURATION_GAIN:
        place -= 1
    return Saturation(*points[place], gain=gains[place] if place < len(gains) else None)


def _gain_per_doubling(low: tuple[int, float], high: tuple[int, float]) -> float:
    """Return the gain in throughput per doubling of the batch, also between batches that are not a factor 2 apart."""
    return (high[1] / low[1]) ** (1 / math.log2(high[0] / low[0])) - 1


def best_row(results: Results, *, engines_only: bool = False) -> Row | None:
    """Return the row with the highest throughput (`engines_only` leaves out PyTorch and ONNX Runtime)."""
    rows = [row for row in results.rows if row.images_per_s and not (engines_only and _is_baseline(row.name))]
    return max(rows, key=lambda row: row.images_per_s or 0.0, default=None)


def headline(results: Results) -> list[tuple[str, str, str]]:
    """Return up to three (number, what it is, under which conditions) of the run: speed, latency, accuracy."""
    return [item for item in (_top_speedup(results), _top_latency(results), _top_accuracy(results)) if item]


def findings(results: Results) -> list[str]:
    """Return what the measured numbers say, a sentence each; nothing is said of what was not measured."""
    said = [_checks(results), _disturbed(results), _fastest(results), _precisions(results)]
    said += [_saturates(results), _dynamic(results)]
    said += [_same_accuracy(results), *(_accuracy_cost(row) for row in results.accuracy)]
    said += [_sizes(results), _bound(results)]
    return [sentence for sentence in said if sentence]


def _is_baseline(name: str) -> bool:
    return name.startswith(("pytorch", "onnxruntime"))


def _top_speedup(results: Results) -> tuple[str, str, str] | None:
    row = best_row(results, engines_only=True)
    if row is None or row.speedup is None:
        return None
    return f"{row.speedup:.1f}×", "PyTorch FP32's throughput", f"{pretty_name(row.name)}, batch {row.batch}"


def _top_latency(results: Results) -> tuple[str, str, str] | None:
    rows = [row for row in results.rows if row.median_ms and row.batch == results.batches[0]]
    if not rows:
        return None
    row = min(rows, key=lambda row: row.median_ms or math.inf)
    return f"{row.median_ms:.3g} ms", "median latency", f"{pretty_name(row.name)}, batch {row.batch}"


def _top_accuracy(results: Results) -> tuple[str, str, str] | None:
    scores = {row.name: row for row in results.accuracy}
    fast = best_row(results, engines_only=True)
    row = scores.get(fast.name) if fast else next(iter(results.accuracy), None)
    if row is None:
        return None
    against = f", {-row.loss:+.1f} points against PyTorch FP32" if row.loss is not None else ""
    return f"{row.top1:.1f} %", "top-1", f"{pretty_name(row.name)}, {row.num_samples:,} images{against}"


def _checks(results: Results) -> str | None:
    failed = [check for check in results.checks if not check.passed]
    if not results.checks:
        return None
    if not failed:
        return f"Every check of the engines passed ({len(results.checks)} of {len(results.checks)})."
    return (
        f"{len(failed)} of {len(results.checks)} checks failed: "
        + "; ".join(f"{pretty_name(check.name)}: {check.message or check.what}" for check in failed)
        + "."
    )


def _disturbed(results: Results) -> str | None:
    """Warn where most times scatter so much that something else must have been running."""
    tails = [row.p95_ms / row.median_ms for row in results.rows if row.p95_ms and row.median_ms]
    if not tails or statistics.median(tails) < DISTURBED_TAIL:
        return None
    return (
        f"Other programs were running while this was measured: over the rows, the typical p95 is "
        f"{statistics.median(tails):.1f} times the median. Measure again on a quiet machine before using the ratios."
    )


def _fastest(results: Results) -> str | None:
    row = best_row(results)
    if row is None:
        return None
    base = f", {row.speedup:.1f} times PyTorch FP32 at the same batch" if row.speedup and row.name != BASELINE else ""
    rate = f"{row.images_per_s:,.0f} images/s{base}"
    return f"{pretty_name(row.name)} at batch {row.batch} had the highest throughput: {rate}."


def _precisions(results: Results) -> str | None:
    """Name each engine's range of speed-ups over the batch sizes."""
    parts = []
    for name in results.names:
        values = [value for _, value in results.series(name, "speedup")]
        if values and name != BASELINE:
            low, high = (f"{limit:.1f}" for limit in (min(values), max(values)))
            parts.append(f"{pretty_name(name)} {low}×" if low == high else f"{pretty_name(name)} {low}–{high}×")
    return f"Throughput against PyTorch FP32, over the batches measured: {', '.join(parts)}." if parts else None


def _saturates(results: Results) -> str | None:
    groups: dict[str, list[str]] = {}
    for name in results.names:
        point = saturation(results.series(name, "images_per_s"))
        if point is None or _is_baseline(name):
            continue
        ending = "still gains at batch" if point.gain is None else "saturates at batch"
        rate = f"{pretty_name(name)} ({point.images_per_s:,.0f} images/s)"
        groups.setdefault(f"{ending} {point.batch}", []).append(rate)
    if not groups:
        return None
    parts = [f"{ending}: {', '.join(names)}" for ending, names in groups.items()]
    meaning = f"saturated means that doubling the batch gains less than {100 * SATURATION_GAIN:.0f} %"
    return f"Throughput {'; '.join(parts)} ({meaning})."


def _dynamic(results: Results) -> str | None:
    """Compare the engine with a wide profile with the one tuned for its largest batch, over the batches they share."""
    wide, tuned = (dict(results.series(name, "median_ms")) for name in ("dynamic-fp16", "fp16"))
    shared = sorted(wide.keys() & tuned.keys())
    if not shared:
        return None
    ratios = ", ".join(f"{wide[batch] / tuned[batch]:.2f} at batch {batch}" for batch in shared)
    return f"Median latency of the dynamic FP16 engine over the FP16 engine tuned for its largest batch: {ratios}."


def _same_accuracy(results: Results) -> str | None:
    """Name the engines that were right and wrong on the very same images as FP32."""
    names = [row.name for row in results.accuracy if row.changed == 0]
    if not names:
        return None
    listed = ", ".join(map(pretty_name, order_names(names)))
    return f"{listed}: right on exactly the images that PyTorch FP32 is right on."


def _accuracy_cost(row: AccuracyRow) -> str | None:
    if row.loss is None or row.loss_low is None or row.loss_high is None or row.changed == 0:
        return None
    verb = "lost" if row.loss >= 0 else "gained"
    clear = row.loss_low > 0 or row.loss_high < 0
    reading = "" if clear else " – no difference that this many images can tell from chance"
    return (
        f"{pretty_name(row.name)} {verb} {abs(row.loss):.2f} points of top-1 against PyTorch FP32 "
        f"(95 % interval of the loss {row.loss_low:+.2f} to {row.loss_high:+.2f}, {row.num_samples:,} images){reading}."
    )


def _sizes(results: Results) -> str | None:
    sizes = {row.name: row.size_bytes for row in results.rows if row.size_bytes and not _is_baseline(row.name)}
    if "fp32" not in sizes or len(sizes) < 2:
        return None
    parts = [
        f"{pretty_name(name)} {sizes[name] / 1e6:.1f} MB ({sizes['fp32'] / sizes[name]:.1f}× smaller)"
        for name in order_names(sizes)
        if sizes[name] < 0.95 * sizes["fp32"]
    ]
    return f"The FP32 engine takes {sizes['fp32'] / 1e6:.1f} MB; {', '.join(parts)}." if parts else None


def _bound(results: Results) -> str | None:
    """Say which bound holds for most of the measured layer time, where a profile with a roofline was taken."""
    timed = [layer for layer in results.layers if layer.bound]
    total = sum(layer.time_ms for layer in timed)
    if not total:
        return None
    memory = sum(layer.time_ms for layer in timed if layer.bound == "memory") / total
    which, share = ("memory", memory) if memory >= 0.5 else ("compute", 1 - memory)
    advice = {
        "memory": "smaller types and fusion help more than faster arithmetic",
        "compute": "what is left to save is arithmetic",
    }[which]
    engine = f"{pretty_name(timed[0].name)} at batch {timed[0].batch}"
    return f"By the measured roofline, {100 * share:.0f} % of the layers' time of {engine} is {which}-bound: {advice}."
