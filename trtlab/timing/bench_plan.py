"""Which things `trtlab bench` measures: engine files, a folder of engines, and the baselines asked for."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from helpers.course.settings import LAB_MODEL
from trtcpu.errors import InputError
from trtlab.timing.options import Baselines
from trtlab.timing.runners import Runner, RunnerSpec, described_inputs, load_if_it_runs, load_runner

SUFFIXES = (".engine", ".plan", ".trt")
_NONE = Baselines()


def engine_files(engines: Sequence[str | Path], folder: str | Path | None) -> list[Path]:
    """Return the engine files given, and those in `folder` by name.

    Raises:
        InputError: `folder` is missing or holds no engine.
    """
    found = [Path(engine) for engine in engines]
    if folder is None:
        return found
    if not Path(folder).is_dir():
        raise InputError(f"--engines {folder} is not a folder; give one that holds {' or '.join(SUFFIXES)} files")
    inside = sorted(path for path in Path(folder).iterdir() if path.suffix in SUFFIXES and path.is_file())
    if not inside:
        raise InputError(f"no engine ({', '.join(SUFFIXES)}) lies in {folder}; build one with trtlab build")
    return [*found, *(path for path in inside if path not in found)]


def check_writable(*paths: str | Path | None) -> None:
    """Find out before anything is measured whether the results can be kept.

    Raises:
        InputError: a path is a folder, or nothing can be written where it lies.
    """
    for path in (Path(path) for path in paths if path is not None):
        try:
            if path.is_dir():
                raise IsADirectoryError(0, "it is a folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror or error}; choose another file") from error


def load_runners(
    engines: Sequence[Path],
    beside: Baselines = _NONE,
    shapes: Sequence[str] = (),
    note: Callable[[str], None] = lambda text: None,
) -> list[Runner]:
    """Load all that is to be measured, engines first so that the baselines take their input shape.

    `shapes` (NAME:SHAPE) take the place of engines' best shapes.
    Half precision and torch.compile are left out with a note where they cannot run; everything else that cannot be
    loaded is an error.
    """
    if shapes and not engines:
        raise InputError("--shapes is for engines, and none was given; add --engine or --engines")
    chosen = tuple(shapes)
    loaded = [load_runner(RunnerSpec("engine", str(path), engine_shapes=chosen)) for path in dict.fromkeys(engines)]
    names = [runner.name for runner in loaded]
    for runner, path in zip(loaded, dict.fromkeys(engines), strict=True):
        if names.count(runner.name) > 1:
            runner.name = str(path.with_suffix(""))
    if beside.ort is not None:
        shapes = next((runner.shapes for runner in loaded if runner.shapes), {})
        loaded.append(load_runner(RunnerSpec("onnxruntime", str(beside.ort), shapes=shapes)))
    shape = loaded[0].sample_shape if loaded else RunnerSpec("pytorch", "").sample_shape
    inputs = described_inputs(loaded[0].inputs) if loaded and loaded[0].inputs else ()
    told = {"data": beside.data, "arch": beside.arch, "sample_shape": shape, "inputs": inputs}
    baseline = RunnerSpec("pytorch", beside.pytorch or LAB_MODEL, **told)
    if beside.pytorch is not None:
        loaded.append(load_runner(baseline))
    for kind, wanted in (("pytorch-fp16", beside.pytorch_fp16), ("torch-compile", beside.torch_compile)):
        if wanted and (runner := load_if_it_runs(replace(baseline, kind=kind), note)):
            loaded.append(runner)
    return loaded
