"""sensitivity: which layers INT8 harms, and the mixed engine that keeps them in FP16.

Heavy modules are imported inside the function, so that `trtlab --help` is quick.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from trtlab.commands.console import print_line, print_table, working
from trtlab.quality.study_options import StudyOptions

if TYPE_CHECKING:
    from trtlab.quality.mixed import Study


def sensitivity(*, options: StudyOptions, engine: Path | None = None) -> None:
    """Measure how much each group of layers suffers in INT8, and mix FP16 in until the loss is within a target.

    Example: trtlab sensitivity --onnx model.onnx --calib-npy calib.npy --engine mixed.engine

    Args:
        engine: Where to put the mixed engine.
    """
    with working("reading the model") as report:
        from helpers.data.datasets import load_dataset
        from helpers.engine.backend import DEVICE
        from trtlab.quality.mixed import Study
        from trtlab.report.pareto import draw_pareto

        study = Study(options, load_dataset(options.data), report, print_line)
        if study.rows:
            print_line(f"{options.out}: goes on after {len(study.rows)} engines")
        study.run()
        study.finish(engine)
        draw_pareto(
            options.out.with_suffix(".png"), study.pareto, f"{options.onnx.name}, {study.images} images\n{DEVICE}"
        )
    _print_ranking(study)
    _print_choice(study, engine)


def _print_ranking(study: "Study") -> None:
    from helpers.engine.arithmetic import arithmetic
    from helpers.engine.backend import DEVICE

    rows = study.rows
    columns = (">share of INT8's error %", ">drift kept in FP16", ">drift alone in INT8", ">INT8 layers then")
    for suffix, what in (("", "group"), ("-layer", "layer")):
        found = [
            (each.unit, f"{each.share:.1f}", f"{each.keep_drift:.2e}", f"{each.only_drift:.2e}")
            + (rows[f"only{suffix} {each.unit}"].layers.get("int8", 0),)
            for each in study.ranking(suffix)
        ]
        if found:
            drifts = ", ".join(f"{name} {rows[name].drift:.2e}" for name in ("fp16", "int8+fp16"))
            title = f"sensitivity by {what} on {study.images} images; drift against FP32: {drifts}"
            print_table(title, (what, *columns), found, f"{DEVICE}; {arithmetic('fp16')}")


def _print_choice(study: "Study", engine: Path | None) -> None:
    points = [
        (each["name"], f"{each['loss']:+.2f}", f"{each['loss_low']:+.2f} to {each['loss_high']:+.2f}")
        + (f"{each['median_ms']:.3f}",)
        for each in study.pareto
    ]
    batch = study.pareto[0]["batch"]
    title = f"loss of top-1 against latency at batch {batch}, timed in turns"
    print_table(title, ("engine", ">loss, points", ">95 % interval", ">median ms"), points)
    row, target = study.chosen, study.options.target_loss
    if row is None:
        print_line(f"no mix loses at most {target:g} points; raise --target-loss, or look at the calibration")
        return
    ran = ", ".join(f"{number} {name}" for name, number in row.ran.items())
    asked = ", ".join(f"{number} {name}" for name, number in row.asked.items())
    kept = ", ".join(row.groups) or "no group"
    print_line(f"{row.name} loses {row.loss:+.2f} points (target {target:g}): first and last layer and {kept} in FP16")
    print_line(f"convolutions and matrix products kept: {asked} asked, {ran} ran")
    kept = f"--keep-fp16 {','.join(row.groups)}" if row.groups else f"--layer-precisions {_ends(study)}"
    print_line(f"{engine} is this engine" if engine else "give --engine to have this engine")
    print_line(f"any other batch: trtlab build --onnx {study.options.onnx} --precision int8+fp16 {kept} …")


def _ends(study: "Study") -> str:
    return ",".join(f"{name}:fp16" for name in study.first_and_last)
