"""latency-budget, and what `bench --end-to-end` measures for it.

Heavy modules are imported inside the functions, so that `trtlab --help` is quick.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from helpers.tools.files import read_json
from trtcpu.errors import InputError
from trtlab.commands.console import print_line, print_notes, print_table, working
from trtlab.images.preprocessing import find_images
from trtlab.images.preprocessing_record import Asked, common
from trtlab.options import MOST, Amount, Bytes
from trtlab.timing.options import BenchOptions

STAGES = ("pre", "h2d", "infer", "d2h", "post")


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
    """Split an end-to-end latency into stages, and compute the throughput with and without overlap.

    Example: trtlab latency-budget --pre-ms 4 --h2d-ms 0.5 --infer-ms 2 --d2h-ms 0.1 --post-ms 1

    Args:
        measured: JSON from bench --end-to-end, instead of the five times.
        pre_ms: Preprocessing, milliseconds per batch.
        h2d_ms: Copy to the device, milliseconds per batch.
        infer_ms: Inference, milliseconds per batch.
        d2h_ms: Copy from the device, milliseconds per batch.
        post_ms: Postprocessing, milliseconds per batch.
        transfer_bytes: Bytes per batch that cross the link.
        link_mbps: Rate of the link in megabits per second (1 MB/s is 8).
    """
    given = dict(zip(STAGES, (pre_ms, h2d_ms, infer_ms, d2h_ms, post_ms), strict=True))
    times = dict.fromkeys(STAGES) if measured is None else _measured_times(measured)
    times |= {name: ms for name, ms in given.items() if ms is not None}
    if missing := [f"--{name}-ms" for name, ms in times.items() if ms is None]:
        raise InputError(
            f"{', '.join(missing)} missing; give all five times, or --from a file of trtlab bench --end-to-end"
        )
    total, bottleneck = sum(times.values()), max(times, key=times.__getitem__)
    if min(times.values()) < 0 or not 0 < total <= MOST:
        found = ", ".join(f"{ms:g}" for ms in times.values())
        raise InputError(f"stages of {found} ms make no budget to split; give times of 0 ms or more, and one above 0")
    if bool(transfer_bytes) != bool(link_mbps):
        raise InputError("--transfer-bytes and --link-mbps go together, both more than 0; give both or none")
    rows = [(*row, "bottleneck" if row[0] == bottleneck else "") for row in _shares({**times, "total": total}, total)]
    print_table("Latency budget of one batch", ("stage", ">ms", ">share %", ""), rows)
    slowest = times[bottleneck]
    print_line(f"One batch after another takes {total:.3g} ms, which is {1e3 / total:.4g} batches/s.")
    print_line(
        f"{bottleneck} takes {100 * slowest / total:.0f} % of it; with all stages overlapped it alone bounds the rate: "
        f"at most {1e3 / slowest:.4g} batches/s."
    )
    if transfer_bytes and link_mbps:
        link_ms = transfer_bytes * 8 / (link_mbps * 1e3)
        free = f", more than {bottleneck} allows; the link is not the bound."
        bound = ". It is the bound, whatever the engine does." if link_ms > slowest else free
        print_line(
            f"The link needs {link_ms:.3g} ms for {transfer_bytes:,} bytes at {link_mbps:g} megabit/s: "
            f"at most {1e3 / link_ms:.4g} batches/s{bound}"
        )


def _measured_times(path: Path) -> dict[str, float]:
    """Return milliseconds by stage of what `trtlab bench --end-to-end` measured: decode and resize are `pre`.

    Raises:
        InputError: the file is not such a measurement.
    """
    try:
        ms = {name: float(value) for name, value in read_json(path, "measurement")["median_ms"].items()}
        return {
            "pre": ms["decode"] + ms["resize"],
            "h2d": ms["h2d"],
            "infer": ms["infer"],
            "d2h": ms["d2h"],
            "post": ms["top-k"],
        }
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} has no times of the stages; write one with trtlab bench --end-to-end … --output FILE"
        ) from error


def bench_end_to_end(
    engines: Sequence[Path],
    images: Path,
    options: BenchOptions,
    output: Path | None,
    beside: Mapping[str, object],
    asked: Asked,
) -> None:
    """Measure one engine at one batch size from files to classes."""
    batches = options.batch_sizes or (1,)
    if named := [option for option, value in beside.items() if value]:
        raise InputError(f"--end-to-end times one engine alone; leave out {', '.join(named)}")
    if len(engines) != 1 or len(batches) != 1:
        found = f"{len(engines)} engines and {len(batches)} batch sizes"
        raise InputError(f"--end-to-end times one engine at one batch size, not {found}")
    with working("loading the engine") as report:
        from helpers.engine.backend import DEVICE
        from trtlab.engines.inference import InferenceEngine
        from trtlab.timing.bench import write_measured
        from trtlab.timing.end_to_end import measure_end_to_end

        paths = find_images(images)
        with InferenceEngine(engines[0]) as engine:
            preprocessing, note = common([engine], asked)
            found = measure_end_to_end(
                engine,
                paths,
                batches[0],
                preprocessing,
                options.calls,
                options.limit_s,
                lambda n, planned: report(f"{n} of {planned} batches"),
            )
    print_notes(note)
    tail = f", p99 {found['total_p99_ms']:.3f} ms" if found["total_p99_ms"] is not None else ""
    print_table(
        f"{found['name']} at batch {found['batch']}, from {found['images']} files to classes, on {DEVICE}",
        ("stage", ">ms", ">share %"),
        _shares(found["median_ms"], sum(found["median_ms"].values())),
        f"medians of {found['iterations']} batches; the whole {found['total_median_ms']:.3f} ms{tail}",
    )
    if output is not None:
        write_measured(output, **found)
        print_line(f"{output}; read by trtlab latency-budget --from {output}")


def _shares(times: Mapping[str, float], total: float) -> list[tuple[str, str, str]]:
    return [(stage, f"{ms:.3f}", f"{100 * ms / total:.1f}") for stage, ms in times.items()]
