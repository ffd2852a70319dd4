"""bench, trtexec, parse-log, profile.

Heavy modules are imported inside the functions, so that `trtlab --help` is quick.
"""

import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from helpers.tools.files import atomic_write, write_json
from trtcpu.errors import InputError
from trtlab.commands.budget import bench_end_to_end
from trtlab.commands.console import print_line, print_notes, print_table, working
from trtlab.engines.tensors import batch_range
from trtlab.images.preprocessing_record import NOTHING, Asked
from trtlab.options import Amount, BatchSize, Count, Files, Milliseconds, Texts
from trtlab.ran_in import ran_text
from trtlab.timing.options import Baselines, BenchOptions, StreamOptions
from trtlab.trtexec.command import find_trtexec, run_trtexec, trtexec_arguments

if TYPE_CHECKING:
    from trtlab.profiling.profile import EngineProfile
    from trtlab.timing.bench import BenchResult

_USUAL, _ALONE, _NO_STREAMS = BenchOptions(), Baselines(), StreamOptions()


def bench(
    *,
    engine: Files = (),
    engines: Path | None = None,
    beside: Baselines = _ALONE,
    shapes: Texts = (),
    options: BenchOptions = _USUAL,
    streams: StreamOptions = _NO_STREAMS,
    end_to_end: Path | None = None,
    asked: Asked = NOTHING,
    output: Path | None = None,
    log: Path | None = None,
) -> None:
    """Measure latency (ms), throughput (images/s) and memory of engines and baselines, interleaved in one run.

    Example: trtlab bench --engines results/engines --pytorch resnet50 --batch-sizes 1 8 32 --duration 3

    Args:
        engine: Engine files, one or more.
        engines: Folder of engines to measure.
        shapes: Input shapes as NAME:SHAPE; repeat for each input. Default: the profile's optimum.
        end_to_end: Folder of images: time one engine from image files to classes, stage by stage. Default batch: 1.
        output: JSON file to write.
        log: Log to write, in trtexec's format.
    """
    if end_to_end is not None:
        alone = {"--engines": engines, "--log": log, "--shapes": shapes, "--streams": streams}
        alone |= {f"--{name.replace('_', '-')}": value for name, value in vars(beside).items() if name != "data"}
        bench_end_to_end(engine, end_to_end, options, output, alone, asked)
        return
    if shapes and (options.batch_sizes or streams):
        raise InputError("--shapes sets the batch, and is not for streams; drop --batch-sizes and --streams")
    if asked:
        raise InputError("--mean, --std, --resize, --crop and --channels are for --end-to-end; noise needs none")
    from trtlab.timing.bench import bench as measure
    from trtlab.timing.bench import check_writable, write_measured
    from trtlab.timing.memory_probe import peak_memory
    from trtlab.timing.runners import engine_files, load_runners
    from trtlab.timing.streams import measure_streams
    from trtlab.trtexec.bench_log import format_log

    files = engine_files(engine, engines)
    if streams and not files:
        raise InputError("--streams measures engines, and none was given; add --engine or --engines")
    for path in filter(None, (output, log)):
        check_writable(path)
    notes: list[str] = []
    shared: list[dict[str, Any]] = []
    runners = load_runners(files, beside, shapes, notes.append)
    tuned = {batch_range(runner.inputs) for runner in runners[: len(files)]}
    usual = any(low <= batch <= high for low, _, high in tuned for batch in options.batches)
    if shapes or (tuned and not usual and not options.batch_sizes):
        options = replace(options, batch_sizes=tuple({best for _, best, _ in tuned}))
    try:
        with working("measuring memory, each in a process of its own") as report:
            results = measure(
                runners,
                options,
                memory=peak_memory,
                progress=lambda label, done, planned: report(f"{label}, {done:,} of {planned:,} calls"),
                note=notes.append,
            )
            if streams:
                shared = measure_streams(
                    list(zip(files, runners, strict=False)),
                    options.batches,
                    streams,
                    seconds=min(options.duration_s, options.limit_s) or 1.0,
                    progress=report,
                    note=notes.append,
                )
    finally:
        for runner in runners:
            runner.close()
    if output is not None:
        write_measured(output, rows=[*(result.row() for result in results), *shared])
    if log is not None:
        atomic_write(log, format_log(results))
    _print_results(results)
    if shared:
        _print_streams(shared)
    print_notes(*notes)


def _print_results(results: "list[BenchResult]") -> None:
    from helpers.engine.backend import DEVICE

    rows = []
    for result in results:
        stats, ran = result.stats, ran_text(result.precision, result.ran_in) or "–"
        times = (stats.mean_ms, stats.median_ms, stats.p90_ms, stats.p95_ms, stats.p99_ms, stats.std_ms)
        shown = ("–" if value is None else f"{value:.3f}" for value in times)
        figures = (f"{stats.count:,}", *shown, f"{result.images_per_s:,.1f}", _figure(result.peak_memory_bytes, 1e6, 0))
        rows.append((result.name, ran, result.batch, *figures, result.device.partition(", ")[0]))
    figures = (">n", ">mean ms", ">median", ">p90", ">p95", ">p99", ">std", ">images/s", ">MB")
    caption = "n calls, times in ms; – where n is too small; MB: peak memory of a process that runs it alone"
    print_table(f"Benchmark on {DEVICE}", ("name", "ran in", ">batch", *figures, "runs on"), rows, caption)


def _print_streams(found: list[dict[str, Any]]) -> None:
    rows = [
        (
            f"{row['name']}, {row['how']}",
            ran_text(row["precision"], row["ran_in"]) or "–",
            row["batch"],
            row["streams"],
            "yes" if row["cuda_graphs"] else "no",
            f"{row['executions']:,}",
            f"{row['images_per_s']:,.1f}",
        )
        for row in found
    ]
    columns = ("name", "ran in", ">batch", ">streams", "graphs", ">n", ">images/s")
    kept = "copied in and out each time" if found[0]["copies"] else "resident on the device"
    print_table("Streams", columns, rows, f"n batches; images/s of all streams together, data {kept}")
    print_line(_best(found))


def _best(found: list[dict[str, Any]]) -> str:
    """Return the fastest point in a line, against its engine at the same batch in one stream without graphs."""
    best = max(found, key=lambda row: row["images_per_s"])
    text = f"best: {best['name']}, {best['how']} at batch {best['batch']}: {best['images_per_s']:,.1f} images/s"
    plain = {"name": best["name"], "batch": best["batch"], "streams": 1, "cuda_graphs": False}
    for row in found:
        if row is not best and plain.items() <= row.items():
            text += f", {best['images_per_s'] / row['images_per_s']:.2f}× one stream without graphs"
    return text


def trtexec(
    *rest: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],
    onnx: str | None = None,
    engine: str | None = None,
    warmup: Milliseconds = 200,
    iterations: Count = 10,
    duration: Amount = 3.0,
    log: Path | None = None,
    only_print: Annotated[bool, Parameter(name="--print")] = False,
) -> None:
    """Run NVIDIA's trtexec, if it is installed. Other options are passed on to it (--fp16, --shapes=…).

    Example: trtlab trtexec --onnx model.onnx --engine fp16.engine --log fp16.log --fp16

    Args:
        onnx: ONNX file to build from.
        engine: Engine to load; with --onnx, where to save it.
        warmup: Warm-up in milliseconds.
        iterations: Minimum number of runs.
        duration: Minimum time to measure, in seconds.
        log: File for trtexec's output, which trtlab parse-log reads.
        only_print: Print the command without running it.
    """
    if not only_print:
        find_trtexec()
    arguments = trtexec_arguments(
        onnx=onnx,
        engine=engine,
        warmup_ms=warmup,
        iterations=iterations,
        duration_s=duration,
        extra=list(rest),
        must_exist=not only_print,
    )
    if only_print:
        redirected = "" if log is None else f" > {shlex.quote(str(log))} 2>&1"
        print(shlex.join(["trtexec", *arguments]) + redirected)
    else:
        run_trtexec(arguments, log, print_line)
        if log is not None:
            print_line(f"log: {log}; read it with trtlab parse-log --log {log}")


def parse_log(
    *,
    log: Path,
    out: Path,
    model: str | None = None,
    precision: str | None = None,
    batch: Count | None = None,
    run: Count | None = None,
) -> None:
    """Convert a trtexec log, exportTimes or exportProfile file to JSON: percentiles (ms), throughput, version, GPU.

    Example: trtlab parse-log --log fp16.log --out fp16.json

    Args:
        log: Log of trtexec 7 to 11 or of trtlab bench, or JSON that trtexec exported.
        out: JSON file to write.
        model: Name of the model. Default: as logged.
        precision: Precision of the engine. Default: as logged.
        batch: Images per query. Default: as logged.
        run: Which of several runs in the log, counted from 1. Default: the last that fits.
    """
    from trtlab.stats import least_calls
    from trtlab.trtexec.parse import parse_file

    found = parse_file(log, model, precision, batch, run)
    write_json(out, found)
    if "latency" in found:
        middle = "mean" if found["latency"]["median_ms"] is None else "median"
        few = 0 < (found["queries"] or 0) < least_calls(99)  # then trtexec's p99 is the largest
        shown = [(name, found["latency"].get(f"{name}_ms")) for name in (middle, "max" if few else "p99")]
        figures = ", ".join(f"{name} {value:g} ms" for name, value in shown if value is not None)
        rate = found["images_per_s"]
        speed = f"{found['throughput_qps']:,.1f} queries/s" if rate is None else f"{rate:,.1f} images/s"
        calls = f" of {found['queries']:,} calls" if found.get("queries") else ""
        said = f"{figures}{calls}, {speed}"
    else:
        said = f"{len(found['layers'])} layers, {found['average_ms']:.4g} ms an execution"
    print_line(f"{found['format']}: {said} → {out}")
    print_notes(*found.get("notes", []))


def profile(
    *,
    engine: Path,
    top: Count = 3,
    batch_size: BatchSize | None = None,
    shapes: Texts = (),
    iterations: Count = 50,
    output: Path | None = None,
) -> None:
    """Show where an engine's time goes, layer by layer, and whether arithmetic or memory bounds each layer.

    Example: trtlab profile --engine fp16.engine --top 3

    Args:
        engine: Engine file.
        top: Number of the slowest layers to explain.
        batch_size: Images per batch. Default: the profile's optimum.
        shapes: Input shapes as NAME:SHAPE; repeat for each input. Default: the profile's optimum.
        iterations: Number of runs; each layer's time is its median.
        output: JSON file to write.
    """

    with working(f"profiling {engine}"):
        from trtlab.profiling.profile import profile_engine

        found = profile_engine(engine, batch_size, iterations, shapes)
    if output is not None:
        write_json(output, asdict(found))
    _print_profile(found)
    for finding in found.findings(top):
        print_line(finding)


def _print_profile(found: "EngineProfile") -> None:
    columns = ("layer", "type", "precision", ">ms", ">share %", ">MFLOP", ">FLOP/byte", "bound by", ">% of roof")
    rows = [
        (
            layer.name, layer.layer_type, layer.precision, f"{layer.time_ms:.4f}", f"{layer.share_percent:.1f}",
            _figure(layer.flops, 1e6), _figure(layer.intensity), layer.bound or "-", _figure(layer.roof_percent),
        )
        for layer in found.layers
    ]  # fmt: skip
    peaks = ", ".join(f"{name} {peak:,.0f} GFLOP/s" for name, peak in found.roofline.peak_gflops.items())
    print_table(
        f"{found.engine} at batch {found.batch} on {found.device}: {found.total_ms:.3f} ms in layers",
        columns,
        rows,
        caption=f"roofline measured in this run: {peaks}; {found.roofline.bandwidth_gb_s:.1f} GB/s. "
        f"FLOP and bytes from {found.costs_from}.",
    )


def _figure(value: float | None, unit: float = 1.0, digits: int = 1) -> str:
    return "-" if value is None else f"{value / unit:,.{digits}f}"
