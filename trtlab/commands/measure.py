"""bench, trtexec, parse-log, profile.

Heavy modules are imported inside the functions, so that `trtlab --help` is quick.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trtcpu.errors import InputError
from trtlab.commands.console import print_line, print_table
from trtlab.commands.multivalue import integers, split_values
from trtlab.commands.preprocessing_options import Channels, Crop, Mean, Resize, Std, asked_of
from trtlab.commands.spellings import LenientCommand
from trtlab.commands.streams import print_streams, run_in_streams, stream_options

if TYPE_CHECKING:
    from trtlab.profiling.profile import EngineProfile
    from trtlab.timing.bench import BenchResult

BATCH_SIZES = ["1", "4", "8", "16", "32"]
ITERATIONS, DURATION_ITERATIONS = 1000, 100
_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(
        cls=LenientCommand,
        epilog="Example: trtlab bench --engines results/engines --pytorch resnet50 --batch-sizes 1 8 32 --duration 3",
    )(bench)
    app.command(
        context_settings=_PASS_ON,
        epilog="Example: trtlab trtexec --onnx model.onnx --engine fp16.engine --log fp16.log --fp16",
    )(trtexec)
    app.command(
        "parse-log",
        epilog="Example: trtlab parse-log --log fp16.log --out fp16.json",
    )(parse_log)
    app.command(cls=LenientCommand, epilog="Example: trtlab profile --engine fp16.engine --top 3")(profile)


def bench(
    engine: Annotated[list[str] | None, typer.Option(help="Engine files; several after one flag.")] = None,
    engines: Annotated[Path | None, typer.Option(help="Folder; every engine in it is measured.")] = None,
    pytorch: Annotated[
        str | None, typer.Option(help="Baseline: this model in PyTorch eager, float32; all that export --model takes.")
    ] = None,
    arch: Annotated[str | None, typer.Option(help="What a state dict of --pytorch belongs to.")] = None,
    torch_compile: Annotated[bool, typer.Option("--torch-compile", help="Baseline: torch.compile too.")] = False,
    ort: Annotated[Path | None, typer.Option(help="Baseline: this ONNX file in ONNX Runtime.")] = None,
    data: Annotated[str, typer.Option(help="Data set whose weights the PyTorch model has.")] = "digits",
    batch_sizes: Annotated[
        list[str] | None, typer.Option(help="Images per batch; several after one flag.", show_default="1 4 8 16 32")
    ] = None,
    shapes: Annotated[
        list[str] | None,
        typer.Option(help="NAME:SHAPE that engines run at, once for each input.", show_default="their profile's best"),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(help="At least so many executions of each.", show_default="1000; 100 where --duration is given"),
    ] = None,
    warmup: Annotated[float, typer.Option(help="Milliseconds of warm-up of each, not counted (as trtexec's).")] = 200.0,
    duration: Annotated[float, typer.Option(help="At least so many seconds of timing of each (as trtexec's).")] = 0.0,
    limit: Annotated[float, typer.Option(help="Seconds from which on missing executions are left out.")] = 60.0,
    streams: Annotated[
        list[str] | None,
        typer.Option(help="Engines' throughput in so many streams at once; several numbers after one flag."),
    ] = None,
    cuda_graphs: Annotated[bool, typer.Option("--cuda-graphs", help="In streams: with CUDA graphs besides.")] = False,
    with_copies: Annotated[
        bool, typer.Option("--with-copies", help="In streams: copy inputs in and outputs out each time.")
    ] = False,
    end_to_end: Annotated[
        Path | None, typer.Option(help="Images: time one engine from files to classes, stage by stage.")
    ] = None,
    mean: Mean = None,
    std: Std = None,
    resize: Resize = None,
    crop: Crop = None,
    channels: Channels = None,
    output: Annotated[Path | None, typer.Option(help="JSON file to write.")] = None,
    log: Annotated[Path | None, typer.Option(help="Log to write, in trtexec's format.")] = None,
) -> None:
    """Measure latency (ms), throughput (images/s) and memory of engines and baselines, taking turns in one run."""
    from trtlab.timing.bench import BenchOptions, write_bench_json, write_bench_log
    from trtlab.timing.bench import bench as measure
    from trtlab.timing.bench_plan import check_writable, engine_files, load_runners
    from trtlab.timing.memory_probe import peak_memory

    if iterations is None:
        iterations = DURATION_ITERATIONS if duration > 0 else ITERATIONS
    asked = asked_of(mean, std, resize, crop, channels)
    if end_to_end is not None:
        from trtlab.commands.budget import bench_end_to_end

        beside = {"--engines": engines, "--pytorch": pytorch, "--torch-compile": torch_compile}
        beside |= {"--ort": ort, "--log": log, "--streams": streams, "--cuda-graphs": cuda_graphs}
        beside |= {"--with-copies": with_copies, "--shapes": shapes, "--arch": arch}
        batches = integers(batch_sizes or ["1"], "--batch-sizes")
        bench_end_to_end(split_values(engine), end_to_end, batches, iterations, limit, output, beside, asked)
        return
    if shapes and (batch_sizes or streams or cuda_graphs):
        raise InputError("--shapes sets the batch, and is not for streams; drop --batch-sizes and --streams")
    if asked:
        raise InputError("--mean, --std, --resize, --crop and --channels are for --end-to-end; noise needs none")
    sizes = integers(BATCH_SIZES if batch_sizes is None else batch_sizes, "--batch-sizes")
    options = BenchOptions(tuple(sizes), iterations, warmup, duration, limit)
    files = engine_files(split_values(engine), engines)
    in_streams = stream_options(streams, cuda_graphs, with_copies, min(duration, limit), files)
    check_writable(output, log)
    notes: list[str] = []
    baselines = {"pytorch": pytorch, "arch": arch, "torch_compile": torch_compile, "ort": ort, "data": data}
    runners = load_runners(files, **baselines, shapes=shapes or (), note=notes.append)
    if shapes:
        options = replace(options, batch_sizes=(runners[0].best_batch,))
    try:
        with _bar() as report:
            results = measure(runners, options, memory=peak_memory, progress=report, note=notes.append)
            alone = list(zip(dict.fromkeys(files), runners, strict=False))
            shared = run_in_streams(alone, sizes, in_streams, lambda text: report(text, 0, 1), notes.append)
    finally:
        for runner in runners:
            runner.close()
    from helpers.engine.backend import describe

    if output is not None:
        write_bench_json(output, [*results, *shared], describe())
    if log is not None:
        write_bench_log(log, results)
    _print_results(results)
    print_streams(shared)
    for line in notes:
        print_line(f"note: {line}")


@contextlib.contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar on a terminal; gives the function that moves it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console, text = Console(stderr=True), TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("measuring memory, each in a process of its own", total=None)
        yield lambda label, done, planned: bar.update(task, description=label, completed=done, total=planned)


def _print_results(results: "list[BenchResult]") -> None:
    from helpers.engine.backend import DEVICE
    from trtlab.ran_in import ran_text

    figures = (">n", ">mean ms", ">median", ">p90", ">p95", ">p99", ">std", ">images/s", ">MB")
    columns = ("name", "ran in", ">batch", *figures, "runs on")
    rows = []
    for result in results:
        stats = result.stats
        times = (stats.mean_ms, stats.median_ms, stats.p90_ms, stats.p95_ms, stats.p99_ms, stats.std_ms)
        memory = "-" if result.peak_memory_bytes is None else f"{result.peak_memory_bytes / 1e6:,.0f}"
        shown = ("–" if value is None else f"{value:.3f}" for value in times)
        ran = ran_text(result.precision, result.ran_in) or "–"
        figures = (f"{stats.count:,}", *shown, f"{result.images_per_s:,.1f}", memory)
        rows.append((result.name, ran, result.batch, *figures, result.device.partition(", ")[0]))
    caption = "n calls, times in ms; – where n is too small; MB: peak memory of a process that runs it alone"
    print_table(f"Benchmark on {DEVICE}", columns, rows, caption)


def trtexec(
    context: typer.Context,
    onnx: Annotated[str | None, typer.Option(help="ONNX file to build from.")] = None,
    engine: Annotated[str | None, typer.Option(help="Engine to load; with --onnx, where to save it.")] = None,
    warmup: Annotated[int, typer.Option(help="Milliseconds of warm-up.")] = 200,
    iterations: Annotated[int, typer.Option(help="At least so many executions.")] = 10,
    duration: Annotated[float, typer.Option(help="At least so many seconds of timing.")] = 3.0,
    log: Annotated[Path | None, typer.Option(help="Where to keep trtexec's output, for trtlab parse-log.")] = None,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the command, to be run elsewhere, and run nothing.")
    ] = False,
) -> None:
    """Run NVIDIA's trtexec where it is installed; every other option is passed on to it (--fp16, --shapes=…)."""
    import shlex

    from trtlab.trtexec.command import find_trtexec, run_trtexec, trtexec_arguments

    extra = [argument for argument in context.args if argument != "--"]
    if not only_print:
        find_trtexec()
    arguments = trtexec_arguments(
        onnx=onnx,
        engine=engine,
        warmup_ms=warmup,
        iterations=iterations,
        duration_s=duration,
        extra=extra,
        must_exist=not only_print,
    )
    if only_print:
        redirected = "" if log is None else f" > {shlex.quote(str(log))} 2>&1"
        print(shlex.join(["trtexec", *arguments]) + redirected)
        return
    run_trtexec(arguments, log, print_line)
    if log is not None:
        print_line(f"log: {log}; read it with trtlab parse-log --log {log}")


def parse_log(
    log: Annotated[Path, typer.Option(help="Log of trtexec 7 to 11 or of trtlab bench; or its exported JSON.")],
    out: Annotated[Path, typer.Option(help="JSON file to write.")],
    model: Annotated[str | None, typer.Option(help="Name of the model.", show_default="as logged")] = None,
    precision: Annotated[str | None, typer.Option(help="Precision of the engine.", show_default="as logged")] = None,
    batch: Annotated[int | None, typer.Option(help="Images per query.", show_default="as logged")] = None,
    run: Annotated[
        int | None, typer.Option(help="Which of several runs in the log, from 1.", show_default="the last that fits")
    ] = None,
) -> None:
    """Turn a trtexec log, exportTimes or exportProfile file into JSON: percentiles in ms, throughput, version, GPU."""
    from helpers.tools.files import write_json
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
        print_line(f"{found['format']}: {figures}{calls}, {speed} → {out}")
    else:
        layers = f"{len(found['layers'])} layers, {found['average_ms']:.4g} ms an execution"
        print_line(f"{found['format']}: {layers} → {out}")
    for note in found.get("notes", []):
        print_line(f"note: {note}")


def profile(
    engine: Annotated[Path, typer.Option(help="Engine file.")],
    top: Annotated[int, typer.Option(help="How many of the slowest layers to explain.")] = 3,
    batch_size: Annotated[
        int | None, typer.Option(help="Images per batch.", show_default="the engine's optimum")
    ] = None,
    shapes: Annotated[
        list[str] | None,
        typer.Option(help="NAME:SHAPE to run at, once for each input.", show_default="the profile's best"),
    ] = None,
    iterations: Annotated[int, typer.Option(help="Executions; each layer's median counts.")] = 50,
    output: Annotated[Path | None, typer.Option(help="JSON file to write.")] = None,
) -> None:
    """Show where an engine's time goes, layer by layer, and whether arithmetic or memory bounds each layer."""
    from helpers.tools.files import write_json
    from trtlab.commands.console import working

    with working(f"profiling {engine}"):
        from trtlab.profiling.profile import profile_engine

        found = profile_engine(engine, batch_size, iterations, shapes or ())
    if output is not None:
        write_json(output, found.to_dict())
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


def _figure(value: float | None, unit: float = 1.0) -> str:
    return "-" if value is None else f"{value / unit:,.1f}"
