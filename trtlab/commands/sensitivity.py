"""sensitivity: which layers INT8 harms, and the mixed engine that keeps them in FP16.

Heavy modules are imported inside the function, so that `trtlab --help` is quick.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from trtlab.commands.console import print_line, print_table, working
from trtlab.options import Amount, BatchSize, Count

if TYPE_CHECKING:
    from trtlab.quality.sensitivity import Study


def sensitivity(
    *,
    onnx: Path,
    out: Path = Path("sensitivity.json"),
    data: str = "digits",
    calib_cache: Path | None = None,
    calib_npy: Path | None = None,
    num_samples: Count = 500,
    batch_size: BatchSize = 8,
    target_loss: Amount = 0.2,
    layers: bool = False,
    keep_engines: bool = False,
    engine: Path | None = None,
) -> None:
    """Measure how much each group of layers suffers in INT8, and mix FP16 in until the loss is within a target.

    Example: trtlab sensitivity --onnx model.onnx --calib-npy calib.npy --engine mixed.engine

    Args:
        onnx: ONNX model, an image classifier.
        out: JSON to write after each engine, and a chart beside it; where it is there, the study goes on.
        data: The images: digits, imagenette, imagenet:FOLDER, cifar10[:FOLDER] or folder:FOLDER (one folder a class).
        calib_cache: Calibration cache that all scales come from.
        calib_npy: Or a tensor of calib-data, to calibrate with once.
        num_samples: Validation images.
        batch_size: Images per batch, for evaluation and timing.
        target_loss: Points of top-1 that the mixed engine may lose against FP32.
        layers: Also each layer of the two most sensitive groups, alone.
        keep_engines: Keep every engine, in OUT.parts.
        engine: Where to put the mixed engine.
    """
    with working("reading the model") as report:
        from helpers.data.datasets import load_dataset
        from helpers.engine.backend import DEVICE
        from trtlab.quality.sensitivity import Study
        from trtlab.report.charts import draw_pareto

        study = Study(
            onnx=onnx,
            out=out,
            dataset=load_dataset(data),
            calib_cache=calib_cache,
            calib_npy=calib_npy,
            num_samples=num_samples,
            batch_size=batch_size,
            target_loss=target_loss,
            layers=layers,
            keep_engines=keep_engines,
            report=report,
            line=print_line,
        )
        if study.rows:
            print_line(f"{out}: goes on after {len(study.rows)} engines")
        study.run(engine)
        draw_pareto(out.with_suffix(".png"), study.pareto, f"{onnx.name}, {len(study.images)} images\n{DEVICE}")
    _print_rankings(study)
    _print_trades(study)
    _print_choice(study, engine)


def _print_rankings(study: "Study") -> None:
    from helpers.engine.arithmetic import arithmetic
    from helpers.engine.backend import DEVICE
    from trtlab.quality.sensitivity import rank

    rows = study.rows
    drifts = ", ".join(f"{name} {rows[name]['drift']:.2e}" for name in ("fp16", "int8+fp16"))
    columns = (">share of INT8's error %", ">drift kept in FP16", ">drift alone in INT8", ">INT8 layers then")
    for what, suffix in (("group", ""), ("layer", "-layer")):
        found = [
            (each.unit, f"{each.share:.1f}", f"{each.keep_drift:.2e}", f"{each.only_drift:.2e}")
            + (rows[f"only{suffix} {each.unit}"]["layers"].get("int8", 0),)
            for each in rank(rows, suffix).itertuples()
        ]
        if found:
            title = f"sensitivity by {what} on {len(study.images)} images; drift against FP32: {drifts}"
            print_table(title, (what, *columns), found, f"{DEVICE}; {arithmetic('fp16')}")


def _print_trades(study: "Study") -> None:
    points = [
        (each["name"], f"{each['loss']:+.2f}", f"{each['loss_low']:+.2f} to {each['loss_high']:+.2f}")
        + (f"{each['median_ms']:.3f}",)
        for each in study.pareto
    ]
    title = f"loss of top-1 against latency at batch {study.pareto[0]['batch']}, timed in turns"
    print_table(title, ("engine", ">loss, points", ">95 % interval", ">median ms"), points)


def _print_choice(study: "Study", engine: Path | None) -> None:
    row, target = study.chosen, study.target_loss
    if row is None:
        print_line(f"no mix loses at most {target:g} points; raise --target-loss, or look at the calibration")
        return
    ran, asked = (", ".join(f"{number} {name}" for name, number in row[key].items()) for key in ("ran", "asked"))
    groups = ", ".join(row["groups"]) or "no group"
    print_line(
        f"{row['name']} loses {row['loss']:+.2f} points (target {target:g}): first and last layer and {groups} in FP16"
    )
    print_line(f"convolutions and matrix products kept: {asked} asked, {ran} ran")
    print_line(f"{engine} is this engine" if engine else "give --engine to have this engine")
    ends = ",".join(f"{name}:fp16" for name in study.first_and_last)
    kept = f"--keep-fp16 {','.join(row['groups'])}" if row["groups"] else f"--layer-precisions {ends}"
    print_line(f"any other batch: trtlab build --onnx {study.onnx} --precision int8+fp16 {kept} …")
