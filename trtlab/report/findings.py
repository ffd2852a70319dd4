"""What the numbers say, computed from them: sentences for the report, and where throughput saturates."""

import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from trtlab.ran_in import differs
from trtlab.report.results import AccuracyRow, Results, Row, base_name, order_names, pretty_name

LEAST_GAIN = 1.1
SATURATION_RULE = "the next larger batch gains less than 10 %"
"""What "saturated" means: the rule of steps 3 and 8, in words."""

DISTURBED_TAIL = 1.25
"""A quiet machine's 95th percentile lies within a few percent of its median; above this ratio the run was disturbed."""


@dataclass(frozen=True)
class Saturation:
    """Where throughput stops growing, and the rate there; `reached` is False where every step still gained."""

    batch: int
    images_per_s: float
    reached: bool


def saturation(points: Sequence[tuple[int, float]]) -> Saturation | None:
    """Return the first measured batch from which the next larger one gains less than 10 %, else the largest.

    Args:
        points: (batch, images/s), ascending by batch.

    Returns:
        None with fewer than two batches: nothing was compared.
    """
    for (batch, rate), (_, larger) in zip(points, points[1:], strict=False):
        if larger < LEAST_GAIN * rate:
            return Saturation(batch, rate, reached=True)
    return Saturation(*points[-1], reached=False) if len(points) > 1 else None


def best_row(results: Results, *, engines_only: bool = False, among: Collection[str] | None = None) -> Row | None:
    """Return the row with the highest throughput (`engines_only` leaves out PyTorch and ONNX Runtime).

    `among` keeps to rows of these names.

    Rows that ran elsewhere or contradict themselves are never the best.
    """
    rows = [row for row in results.rows if row.images_per_s and not row.elsewhere and not row.apart]
    rows = [row for row in rows if not (engines_only and _is_baseline(row.name))]
    rows = [row for row in rows if among is None or row.name in among]
    return max(rows, key=lambda row: row.images_per_s or 0.0, default=None)


TARGET_LOSS = 1.0
"""Points of top-1 that an engine to deploy may lose."""


def deploy(results: Results) -> str | None:
    """Return which engine to deploy and why: the fastest whose loss of top-1 is within the target, with its numbers.

    None where no engine's throughput was measured, or none is accurate enough to be named.
    """
    scores = {row.name: row for row in results.accuracy}
    within = {name for name, row in scores.items() if (row.loss or 0.0) <= TARGET_LOSS}
    row = best_row(results, engines_only=True, among=within if scores else None)
    if row is None:
        return None
    base = results.title(results.baseline)
    numbers = [f"{row.images_per_s:,.0f} images/s at batch {row.batch}{_of(row.executions, 'executions')}"]
    numbers += [f"{row.speedup:.1f} times {base}"] if row.speedup else []
    if row.median_ms:
        numbers.append(f"median latency {figures(row.median_ms)} ms{_of(row.iterations, 'calls')}")
    if score := scores.get(row.name):
        numbers.append(f"top-1 {score.top1:.1f} %{_of(score.num_samples, 'images')}")
        if score.loss is not None:
            numbers[-1] += f", {0 - round(score.loss, 2):+.2f} points against {pretty_name(results.baseline)}"
    why = "the fastest engine; its accuracy was not measured"
    if scores:
        why = f"the fastest engine that loses at most {TARGET_LOSS:g} point of top-1"
    return f"Deploy {results.title(row.name)}: {why}. {'; '.join(numbers)}."


def _of(number: int | None, what: str) -> str:
    return f" (n = {number:,} {what})" if number else ""


def figures(value: float) -> str:
    """Return at least three significant figures, never with an exponent: one form in tables, charts and sentences."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:#.3g}".rstrip(".")


def most_layers(results: Results) -> str:
    """Say in one sentence in which precision most layers of each row ran."""
    if not any(row.ran_in for row in results.rows):
        return "In which precision the layers ran was not recorded."
    rows = {row.name: row for row in results.rows}
    said: dict[str, list[str]] = {}
    for name in results.names:
        ran = rows[name].ran_in
        said.setdefault(f"in {ran.upper()}" if ran else "in a precision that is not recorded", []).append(
            pretty_name(name)
        )
    parts = [f"{where}: {', '.join(names)}" for where, names in said.items()]
    return f"Most layers ran {'; '.join(parts)}."


def headline(results: Results) -> list[tuple[str, str, str]]:
    """Return up to three (number, what it is, under which conditions) of the run: speed, latency, accuracy."""
    speed = _top_speedup(results) or _top_rate(results)
    return [item for item in (speed, _top_latency(results), _top_accuracy(results)) if item]


def findings(results: Results) -> list[str]:
    """Return what the measured numbers say, a sentence each; nothing is said of what was not measured."""
    said = [_checks(results), _disturbed(results), contradiction(results), _other_arithmetic(results)]
    said += [_elsewhere(results), _machines(results)]
    said += [_fastest(results), _precisions(results)]
    said += [_saturates(results), _dynamic(results)]
    said += [_same_accuracy(results), *(_accuracy_cost(results, row) for row in results.accuracy)]
    said += [_sizes(results), _bound(results)]
    return [sentence for sentence in said if sentence]


def _is_baseline(name: str) -> bool:
    return name.startswith(("pytorch", "onnxruntime"))


def _top_speedup(results: Results) -> tuple[str, str, str] | None:
    row = best_row(results, engines_only=True)
    if row is None or row.speedup is None:
        return None
    what = f"the throughput of {results.title(results.baseline)}"
    return f"{row.speedup:.1f}×", what, f"{results.title(row.name)}, batch {row.batch}"


def _top_rate(results: Results) -> tuple[str, str, str] | None:
    """Return the highest throughput, where there is no baseline to compare it with."""
    row = best_row(results, engines_only=True)
    if row is None or any(other.speedup for other in results.rows):
        return None
    return f"{row.images_per_s:,.0f}", "images/s", f"{results.title(row.name)}, batch {row.batch}"


def _top_latency(results: Results) -> tuple[str, str, str] | None:
    rows = [row for row in results.rows if row.typical_ms and not row.elsewhere and not row.apart]
    if not rows:
        return None
    row = min(rows, key=lambda row: (row.batch, row.typical_ms))
    calls = f", {row.iterations:,} calls" if row.iterations else ""
    what = "median latency" if row.median_ms else "mean latency"
    return f"{figures(row.typical_ms)} ms", what, f"{results.title(row.name)}, batch {row.batch}{calls}"


def _top_accuracy(results: Results) -> tuple[str, str, str] | None:
    scores = {row.name: row for row in results.accuracy}
    fast = best_row(results, engines_only=True, among=scores)
    row = scores.get(fast.name) if fast else next(iter(results.accuracy), None)
    if row is None:
        return None
    base = pretty_name(results.baseline)
    against = f", {0 - round(row.loss, 1):+.1f} points against {base}" if row.loss is not None else ""
    return f"{row.top1:.1f} %", "top-1", f"{results.title(row.name)}, {row.num_samples:,} images{against}"


def _checks(results: Results) -> str | None:
    failed = [check for check in results.checks if not check.passed]
    if not results.checks:
        return None
    if not failed:
        return f"Every check of the engines passed ({len(results.checks)} of {len(results.checks)})."
    return (
        f"{len(failed)} of {len(results.checks)} checks failed: "
        + "; ".join(f"{results.title(check.name)}: {check.message or check.what}" for check in failed)
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


def contradiction(results: Results) -> str | None:
    """Return a sentence that names the rows whose throughput and latency cannot both be right, None without any."""
    if not results.contradictions:
        return None
    parts = [
        f"{results.title(row.name)} at batch {row.batch} ({row.apart:.1f} times apart)"
        for row in results.contradictions
    ]
    return (
        f"Throughput and latency contradict each other: {'; '.join(parts)}. Neither is in a headline, a chart or a "
        "speed-up; measure again."
    )


def _other_arithmetic(results: Results) -> str | None:
    """Name the rows whose layers mostly ran in another precision than was asked for."""
    groups: dict[str, list[str]] = {}
    for name in results.names:
        row = next(row for row in results.rows if row.name == name)
        if row.ran_in and differs(row.precision, row.ran_in):
            groups.setdefault(row.ran_in.upper(), []).append(pretty_name(name))
    parts = [f"{', '.join(names)} ran in {precision}" for precision, names in groups.items()]
    return f"Not every row ran in the precision asked for: {'; '.join(parts)} (most layers)." if parts else None


def _elsewhere(results: Results) -> str | None:
    """Name the baselines that no other row is compared with."""
    parts = [
        f"{pretty_name(name)} ran on {where}" for name, where in results.visitors.items() if base_name(name) == name
    ]
    return f"{'; '.join(parts)}, not on the GPU: it has no speed-up, and an axis of its own." if parts else None


def _machines(results: Results) -> str | None:
    """Name the other machines."""
    if not results.machines:
        return None
    parts = "; ".join(f"rows marked {words} on {where}" for words, where in results.machines.items())
    return f"More than one device was measured: {parts}. They have no headline and no speed-up, and axes of their own."


def _fastest(results: Results) -> str | None:
    row = best_row(results)
    if row is None:
        return None
    faster = row.speedup and row.name != results.baseline
    base = f", {row.speedup:.1f} times {results.title(results.baseline)} at the same batch" if faster else ""
    rate = f"{row.images_per_s:,.0f} images/s{base}"
    return f"{results.title(row.name)} at batch {row.batch} had the highest throughput: {rate}."


def _precisions(results: Results) -> str | None:
    """Name each engine's range of speed-ups over the batch sizes."""
    parts = []
    for name in results.names:
        values = [value for _, value in results.series(name, "speedup")]
        if values and base_name(name) != results.baseline:
            low, high = (f"{limit:.1f}" for limit in (min(values), max(values)))
            parts.append(f"{results.title(name)} {low}×" if low == high else f"{results.title(name)} {low}–{high}×")
    base = results.title(results.baseline)
    return f"Throughput against {base}, over the batches measured: {', '.join(parts)}." if parts else None


def _saturates(results: Results) -> str | None:
    groups: dict[str, list[str]] = {}
    for name in results.names:
        point = saturation(results.series(name, "images_per_s"))
        if point is None or _is_baseline(name):
            continue
        ending = "saturates at batch" if point.reached else "still gains at batch"
        rate = f"{results.title(name)} ({point.images_per_s:,.0f} images/s)"
        groups.setdefault(f"{ending} {point.batch}", []).append(rate)
    if not groups:
        return None
    parts = [f"{ending}: {', '.join(names)}" for ending, names in groups.items()]
    return f"Throughput {'; '.join(parts)} (saturated: the first measured batch from which {SATURATION_RULE})."


def _dynamic(results: Results) -> str | None:
    """Compare the engine with a wide profile with the one tuned for its largest batch, over the batches they share."""
    wide, tuned = (dict(results.series(name, "median_ms")) for name in ("dynamic-fp16", "fp16"))
    shared = sorted(wide.keys() & tuned.keys())
    if not shared:
        return None
    ratios = ", ".join(f"{wide[batch] / tuned[batch]:.2f} at batch {batch}" for batch in shared)
    engines = f"{results.title('dynamic-fp16')} over {results.title('fp16')}, which is tuned for its largest batch"
    return f"Median latency of {engines}: {ratios}."


def _same_accuracy(results: Results) -> str | None:
    """Name the engines that were right and wrong on the very same images as FP32."""
    names = [row.name for row in results.accuracy if row.changed == 0]
    if not names:
        return None
    listed = ", ".join(map(results.title, order_names(names)))
    return f"{listed}: right on exactly the images that {pretty_name(results.baseline)} is right on."


def _accuracy_cost(results: Results, row: AccuracyRow) -> str | None:
    if row.loss is None or row.loss_low is None or row.loss_high is None or row.changed == 0:
        return None
    verb = "lost" if row.loss >= 0 else "gained"
    clear = row.loss_low > 0 or row.loss_high < 0
    reading = "" if clear else " – no difference that this many images can tell from chance"
    return (
        f"{results.title(row.name)} {verb} {abs(row.loss):.2f} points of top-1 against {pretty_name(results.baseline)} "
        f"(95 % interval of the loss {row.loss_low:+.2f} to {row.loss_high:+.2f}, {row.num_samples:,} images){reading}."
    )


def _sizes(results: Results) -> str | None:
    rows = [row for row in results.rows if row.size_bytes and not row.elsewhere and not _is_baseline(row.name)]
    sizes = {row.name: row.size_bytes for row in rows}
    if "fp32" not in sizes or len(sizes) < 2:
        return None
    parts = [
        f"{results.title(name)} {sizes[name] / 1e6:.1f} MB ({sizes['fp32'] / sizes[name]:.1f}× smaller)"
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
    engine = f"{results.title(timed[0].name)} at batch {timed[0].batch}"
    return f"By the measured roofline, {100 * share:.0f} % of the layers' time of {engine} is {which}-bound: {advice}."
