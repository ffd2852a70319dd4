"""latency-budget, and what `bench --end-to-end` measures for it.

Heavy modules are imported inside the functions, so that `trtlab --help` is quick.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trtcpu.errors import InputError
from trtlab.commands.console import print_line, print_note, print_table, working
from trtlab.images.preprocessing_record import Asked
from trtlab.options import Amount, Bytes
from trtlab.timing.options import BenchOptions


def latency_budget(
    *,
    measured: Annotated[Path | None, Parameter(name="--from")] = None,
    pre_ms: Amount | None = None,
    h2d_ms: Amount | None = None,
    infer_ms: Amount | None = None,
    d2h_ms: Amount | None = None,
    post_ms: Amount | None = None,
    transfer_bytes: Bytes | None = None,
    link_mbps: Amount | None = None,
) -> None:
    """Split an end-to-end latency into its stages and give the bounds on throughput, overlapped or not.

    Example: trtlab latency-budget --pre-ms 4 --h2d-ms 0.5 --infer-ms 2 --d2h-ms 0.1 --post-ms 1

    Args:
        measured: JSON of bench --end-to-end; in place of the five times.
        pre_ms: Preprocessing, milliseconds per batch.
        h2d_ms: Upload to the device, milliseconds per batch.
        infer_ms: Inference, milliseconds per batch.
        d2h_ms: Download from the device, milliseconds per batch.
        post_ms: Postprocessing, milliseconds per batch.
        transfer_bytes: Bytes that a batch moves over the link.
        link_mbps: The link's rate in megabits per second (10^6 bit/s; 1 MB/s is 8).
    """
    from trtlab.timing.latency_budget import STAGES, LatencyBudget

    times = dict(zip(STAGES, (pre_ms, h2d_ms, infer_ms, d2h_ms, post_ms), strict=True))
    given = {name: ms for name, ms in times.items() if ms is not None}
    link = {"transfer_bytes": transfer_bytes, "link_mbps": link_mbps}
    if measured is not None:
        budget = LatencyBudget.of_measurement(measured, given, **link)
    elif len(given) == len(STAGES):
        budget = LatencyBudget(*given.values(), **link)
    else:
        missing = ", ".join(f"--{name}-ms" for name in STAGES if name not in given)
        raise InputError(f"{missing} missing; give all five times, or --from a file of trtlab bench --end-to-end")
    rows = [
        (name, f"{ms:.3f}", f"{budget.shares[name]:.1f}", "bottleneck" if name == budget.bottleneck else "")
        for name, ms in budget.times_ms.items()
    ]
    rows.append(("total", f"{budget.total_ms:.3f}", "100.0", ""))
    print_table("Latency budget of one batch", ("stage", ">ms", ">share %", ""), rows)
    for line in budget.advice():
        print_line(line)


def bench_end_to_end(
    engines: Sequence[Path],
    images: Path,
    options: BenchOptions,
    output: Path | None,
    beside: Mapping[str, object],
    asked: Asked,
) -> None:
    """Measure one engine at one batch size from files to classes; the chart is written beside `output`."""
    batches = (1,) if options.batch_sizes == BenchOptions().batch_sizes else options.batch_sizes
    if named := [option for option, value in beside.items() if value]:
        raise InputError(f"--end-to-end times one engine alone; leave out {', '.join(named)}")
    if len(engines) != 1 or len(batches) != 1:
        found = f"{len(engines)} engines and {len(batches)} batch sizes"
        raise InputError(f"--end-to-end times one engine at one batch size, not {found}")
    with working("loading the engine") as report:
        from helpers.engine.backend import DEVICE
        from trtlab.engines.inference import InferenceEngine
        from trtlab.images.preprocessing import find_images
        from trtlab.images.preprocessing_record import common
        from trtlab.timing.end_to_end import STAGES, draw, measure_end_to_end, write

        paths = find_images(images)
        with InferenceEngine(engines[0]) as engine:
            preprocessing, note = common([engine], asked)
            how = (preprocessing, options.calls, options.limit_s)
            found = measure_end_to_end(
                engine, paths, batches[0], *how, lambda n, planned: report(f"{n} of {planned} batches")
            )
    print_note(note)
    total = sum(found.median_ms.values())
    rows = [(stage, f"{found.median_ms[stage]:.3f}", f"{100 * found.median_ms[stage] / total:.1f}") for stage in STAGES]
    tail = f", p99 {found.total_p99_ms:.3f} ms" if found.total_p99_ms is not None else ""
    caption = f"medians of {found.iterations} batches; the whole {found.total_median_ms:.3f} ms{tail}"
    print_table(
        f"{found.name} at batch {found.batch}, from {found.images} files to classes, on {DEVICE}",
        ("stage", ">ms", ">share %"),
        rows,
        caption,
    )
    if output is not None:
        write(output, found)
        draw(output.with_suffix(".png"), found)
        print_line(f"{output} and {output.with_suffix('.png')}; read by trtlab latency-budget --from {output}")
