"""Which things `trtlab bench` measures: engine files, a folder of engines, and the baselines asked for."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from helpers.course.settings import LAB_MODEL
from trtcpu.errors import InputError
from trtlab.timing.options import Baselines
from trtlab.timing.runners import Runner, RunnerSpec, load_if_it_runs, load_runner

SUFFIXES = (".engine", ".plan", ".trt")


def engine_files(engines: Sequence[Path], folder: Path | None) -> list[Path]:
    """Return the engine files given, and those in `folder` by name; none twice.

    Raises:
        InputError: `folder` is missing or holds no engine.
    """
    if folder is None:
        return list(dict.fromkeys(engines))
    if not folder.is_dir():
        raise InputError(f"--engines {folder} is not a folder; give one that holds {' or '.join(SUFFIXES)} files")
    inside = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())
    if not inside:
        raise InputError(f"no engine ({', '.join(SUFFIXES)}) lies in {folder}; build one with trtlab build")
    return list(dict.fromkeys([*engines, *inside]))


def check_writable(path: Path) -> None:
    """Find out before anything is measured whether the results can be kept.

    Raises:
        InputError: the path is a folder, or nothing can be written where it lies.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose another file") from error


def load_runners(
    engines: Sequence[Path],
    beside: Baselines,
    shapes: Sequence[str] = (),
    note: Callable[[str], None] = lambda text: None,
) -> list[Runner]:
    """Load all that is to be measured, engines first so that the baselines take their inputs.

    `shapes` (NAME:SHAPE) take the place of engines' best shapes.
    Half precision and torch.compile are left out with a note where they cannot run; everything else that cannot be
    loaded is an error.
    """
    if shapes and not engines:
        raise InputError("--shapes is for engines, and none was given; add --engine or --engines")
    loaded = [load_runner(RunnerSpec("engine", str(path), engine_shapes=tuple(shapes))) for path in engines]
    names = [runner.name for runner in loaded]
    for runner, path in zip(loaded, engines, strict=True):
        if names.count(runner.name) > 1:
            runner.name = str(path.with_suffix(""))
    inputs = loaded[0].inputs if loaded else None
    if beside.ort is not None:
        loaded.append(load_runner(RunnerSpec("onnxruntime", str(beside.ort), inputs=inputs)))
        inputs = loaded[0].inputs
    baseline = RunnerSpec("pytorch", beside.pytorch or LAB_MODEL, data=beside.data, arch=beside.arch, inputs=inputs)
    if beside.pytorch is not None:
        loaded.append(load_runner(baseline))
    for kind, wanted in (("pytorch-fp16", beside.pytorch_fp16), ("torch-compile", beside.torch_compile)):
        if wanted and (runner := load_if_it_runs(replace(baseline, kind=kind), note)):
            loaded.append(runner)
    return loaded
