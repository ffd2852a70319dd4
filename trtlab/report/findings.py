"""What the numbers say, computed from them: sentences for the report, and where throughput saturates."""

from collections.abc import Container, Iterable
from typing import Any

import pandas as pd

from trtlab.report.results import Results, pretty

LEAST_GAIN = 1.1
# What "saturated" means: the rule of steps 3 and 8, in words.
SATURATION_RULE = "the next larger batch gains less than 10 %"

# A quiet machine's 95th percentile lies within a few percent of its median; above this ratio the run was disturbed.
DISTURBED_TAIL = 1.25

# Percent of the roof. Neither bound explains the time of layers that stay below.
FAR_FROM_ROOF = 10

# Precisions that are FP32 under another name where the machine has no arithmetic for them.
FLOATS = ("tf32", "fp16", "bf16")


def saturation(lines: pd.DataFrame) -> tuple[int, float, bool]:
    """Return the first batch from which the next larger one gains less than 10 %, its rate, and True.

    Where every step gained, the largest batch, its rate and False.

    Args:
        lines: batch and value (images/s), ascending by batch.
    """
    flat = lines[lines.value.shift(-1) < LEAST_GAIN * lines.value]
    found = flat.iloc[0] if len(flat) else lines.iloc[-1]
    return found.batch, found.value, len(flat) > 0


# Points of top-1 that an engine to deploy may lose.
TARGET_LOSS = 1.0


def figures(value: float) -> str:
    """Return at least three significant figures, never with an exponent: one form in tables, charts and sentences."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:#.3g}".rstrip(".")


def engines_only(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without PyTorch's and ONNX Runtime's."""
    return frame[~frame.engine.str.startswith(("pytorch", "torch-compile", "onnxruntime"))]


def fastest(results: Results, titles: Container[str] | None = None) -> Any | None:
    """Return the row with the highest throughput of the engines, or of those with these titles; None without any.

    FP16 that ran in FP32 is not among them if FP32 is: only chance would decide between the two.
    """
    rows = engines_only(_sound(results))
    rows = rows[rows.images_per_s.notna() & (titles is None or rows.title.isin(titles))]
    if (rows.precision == "fp32").any():
        rows = rows[(rows.ran_in != "fp32") | ~rows.precision.isin(FLOATS)]
    return rows.loc[rows.images_per_s.idxmax()] if len(rows) else None


def _sound(results: Results) -> pd.DataFrame:
    """Return the rows that a headline may name: of the first machine, and without a contradiction."""
    rows = results.rows
    return rows[rows.elsewhere.isna() & rows.machine.isna() & rows.apart.isna()]


def deploy(results: Results) -> str | None:
    """Return which engine to deploy and why: the fastest whose loss of top-1 is within the target, with its numbers.

    None if no engine's throughput was measured, or none is accurate enough to be named.
    """
    if results.models:
        return f"No engine is recommended: these are of different models ({results.models}); make a report of each."
    within = results.accuracy[results.accuracy.loss.fillna(0) <= TARGET_LOSS]
    best, why = fastest(results), "the fastest engine; its accuracy was not measured"
    if len(results.accuracy):
        best = fastest(results, within.title)
        why = f"the fastest engine that loses at most {TARGET_LOSS:g} point of top-1"
    if best is None:
        return None
    said = [f"{best.images_per_s:,.0f} images/s at batch {best.batch}{_of(best.executions, 'executions')}"]
    if pd.notna(best.speedup):
        said.append(f"{best.speedup:.1f} times {results.title(results.baseline)}")
    if pd.notna(best.median_ms):
        said.append(f"median latency {figures(best.median_ms)} ms{_of(best.iterations, 'calls')}")
    for score in within[within.title == best.title].itertuples():
        said.append(f"top-1 {score.top1:.1f} %{_of(score.num_samples, 'images')}")
        if pd.notna(score.loss):
            said[-1] += f", {0 - round(score.loss, 2):+.2f} points against {pretty(results.baseline)}"
    return f"Deploy {best.title}: {why}. {'; '.join(said)}."


def _of(number: Any, what: str) -> str:
    return f" (n = {number:,} {what})" if pd.notna(number) else ""


def most_layers(results: Results) -> str:
    """Say in one sentence in which precision most layers of each row ran."""
    ran = results.engines.ran_in.map(str.upper, na_action="ignore").fillna("a precision that is not recorded")
    groups = results.engines.groupby(ran, sort=False).title.agg(", ".join)
    return f"Most layers ran {'; '.join(f'in {where}: {titles}' for where, titles in groups.items())}."


def headline(results: Results) -> list[tuple[str, str, str]]:
    """Return up to three (number, what it is, under which conditions) of the run: speed, latency, accuracy.

    None for engines of different models.
    """
    if results.models:
        return []
    return [item for item in (_top_speed(results), _top_latency(results), _top_accuracy(results)) if item]


def findings(results: Results) -> list[str]:
    """Return what the measured numbers say, a sentence each; nothing is said of what was not measured."""
    said = [
        _checks(results),
        _disturbed(results),
        contradiction(results),
        _elsewhere(results),
        _saturates(results),
        _same_accuracy(results),
        *(_accuracy_cost(results, row) for row in results.accuracy.itertuples()),
        _bound(results),
    ]
    return [sentence for sentence in said if sentence]


def _top_speed(results: Results) -> tuple[str, str, str] | None:
    """Return the fastest engine's speed-up, or its throughput if there is no baseline to compare it with."""
    best = fastest(results)
    if best is None:
        return None
    where = f"{best.title}, batch {best.batch}"
    if pd.notna(best.speedup):
        return f"{best.speedup:.1f}×", f"the throughput of {results.title(results.baseline)}", where
    return f"{best.images_per_s:,.0f}", "images/s", where


def _top_latency(results: Results) -> tuple[str, str, str] | None:
    rows = _sound(results).dropna(subset="typical_ms")
    if rows.empty:
        return None
    row = rows.sort_values(["batch", "typical_ms"], kind="stable").iloc[0]
    calls = f", {row.iterations:,} calls" if pd.notna(row.iterations) else ""
    what = "median latency" if pd.notna(row.median_ms) else "mean latency"
    return f"{figures(row.typical_ms)} ms", what, f"{row.title}, batch {row.batch}{calls}"


def _top_accuracy(results: Results) -> tuple[str, str, str] | None:
    scores = results.accuracy
    if scores.empty:
        return None
    best = fastest(results, scores.title)
    score = scores.iloc[0] if best is None else scores[scores.title == best.title].iloc[0]
    base = pretty(results.baseline)
    against = f", {0 - round(score.loss, 1):+.1f} points against {base}" if pd.notna(score.loss) else ""
    return f"{score.top1:.1f} %", "top-1", f"{score.title}, {score.num_samples:,} images{against}"


def _checks(results: Results) -> str | None:
    failed = [check for check in results.checks if not check["passed"]]
    if not results.checks:
        return None
    if not failed:
        return f"Every check of the engines passed ({len(results.checks)} of {len(results.checks)})."
    said = [f"{results.title(each['engine'], each.get('source'))}: {failure(each)}" for each in failed]
    return f"{len(failed)} of {len(results.checks)} checks failed: {'; '.join(said)}."


def failure(check: dict[str, Any]) -> str:
    """Return what a check that failed found."""
    return check.get("message") or check["what"]


def _disturbed(results: Results) -> str | None:
    """Warn if most times scatter so much that something else must have been running."""
    typical = (results.rows.p95_ms / results.rows.median_ms).dropna().median()
    return (
        f"Other programs were running while this was measured: over the rows, the typical p95 is "
        f"{typical:.1f} times the median. Measure again on a quiet machine before using the ratios."
        if typical >= DISTURBED_TAIL
        else None
    )


def contradiction(results: Results) -> str | None:
    """Return a sentence that names the rows whose throughput and latency cannot both be right, None without any."""
    wrong = results.rows.dropna(subset="apart").itertuples()
    parts = [f"{row.title} at batch {row.batch} ({row.apart:.1f} times apart)" for row in wrong]
    return (
        f"Throughput and latency contradict each other: {'; '.join(parts)}. Neither is in a headline, a chart or a "
        "speed-up; measure again."
        if parts
        else None
    )


def _elsewhere(results: Results) -> str | None:
    away = results.engines[results.engines.elsewhere.notna() & results.engines.machine.isna()]
    parts = [f"{row.title} ran on {row.elsewhere}" for row in away.itertuples()]
    return (
        f"{'; '.join(parts)}, not on the GPU: it has no speed-up, is in no chart, and its memory is the process's."
        if parts
        else None
    )


def _saturates(results: Results) -> str | None:
    rates: dict[str, list[str]] = {}
    for title, lines in engines_only(results.lines("images_per_s")).groupby("title", sort=False):
        if len(lines) > 1:
            batch, rate, reached = saturation(lines)
            where = f"{'saturates' if reached else 'still gains'} at batch {batch}"
            rates.setdefault(where, []).append(f"{title} ({rate:,.0f} images/s)")
    said = "; ".join(f"{where}: {', '.join(engines)}" for where, engines in rates.items())
    return f"Throughput {said} (saturated: the first measured batch from which {SATURATION_RULE})." if said else None


def _same_accuracy(results: Results) -> str | None:
    same = results.accuracy[results.accuracy.changed.eq(0).fillna(False)]
    base = pretty(results.baseline)
    return f"{', '.join(same.title)}: right on exactly the images that {base} is right on." if len(same) else None


def _accuracy_cost(results: Results, row: Any) -> str | None:
    if pd.isna([row.loss, row.loss_low, row.loss_high]).any() or (pd.notna(row.changed) and row.changed == 0):
        return None
    verb = "lost" if row.loss >= 0 else "gained"
    clear = row.loss_low > 0 or row.loss_high < 0
    reading = "" if clear else " – no difference that this many images can tell from chance"
    return (
        f"{row.title} {verb} {abs(row.loss):.2f} points of top-1 against {pretty(results.baseline)} "
        f"(95 % interval of the loss {row.loss_low:+.2f} to {row.loss_high:+.2f}, {row.num_samples:,} images){reading}."
    )


def _bound(results: Results) -> str | None:
    """Say which bound holds for most of the layers' time, and how close to it the layers come."""
    timed = [layer for layer in results.layers if layer.get("roof_percent") and layer["time_ms"]]
    if not timed:
        return None
    engine = f"{results.title(timed[0]['engine'])} at batch {timed[0]['batch']}"
    spent = {kind: _spent(layer for layer in timed if layer.get("bound") == kind) for kind in ("memory", "compute")}
    total = _spent(results.layers)
    unknown = 100 * (total - sum(spent.values())) / total
    if unknown > 50:
        return f"No bound is known for {unknown:.0f} % of the layers' time of {engine}."
    which, other = max(("memory", "arithmetic"), ("compute", "memory"), key=lambda kind: spent[kind[0]])
    roofs = (layer["time_ms"] * layer["roof_percent"] for layer in timed if layer.get("bound") == which)
    reached = sum(roofs) / spent[which]
    if reached < FAR_FROM_ROOF:
        return (
            f"Neither arithmetic nor memory holds {engine} back: its layers reach {reached:.0f} % of their roof. "
            "In a small network most of the time goes into starting the layers."
        )
    share = f"{100 * spent[which] / total:.0f} % of the layers' time"
    rest = f", and no bound is known for {unknown:.0f} %" if unknown >= 0.5 else ""
    return (
        f"By the measured roofline, {share} of {engine} is {which}-bound: faster {other} would not help there{rest}. "
        f"The {which}-bound layers reach {reached:.0f} % of their roof."
    )


def _spent(layers: Iterable[dict[str, Any]]) -> float:
    return sum(layer["time_ms"] for layer in layers)
