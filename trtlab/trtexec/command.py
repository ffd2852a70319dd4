"""Running NVIDIA's trtexec if it is installed, with its output kept in a log."""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from helpers.tools.files import atomic_write
from trtcpu.errors import EngineError, EngineUnavailableError, InputError

_PLACES = ("/usr/src/tensorrt/bin/trtexec", "/usr/local/tensorrt/bin/trtexec", "/opt/tensorrt/bin/trtexec")


def find_trtexec() -> str:
    """Return the path of trtexec.

    Raises:
        EngineUnavailableError: it is not installed; the text points to `trtlab bench`.
    """
    found = next(filter(None, map(shutil.which, ("trtexec", *_PLACES))), None)
    if found is None:
        raise EngineUnavailableError(
            "trtexec is not installed here (looked on PATH and in "
            f"{', '.join(str(Path(place).parent) for place in _PLACES)}); it comes with TensorRT's tar file and Debian "
            "packages, not with pip; measure with trtlab bench --engine E --log L instead, its log reads the same"
        )
    return found


def trtexec_arguments(
    *,
    onnx: str | None = None,
    engine: str | None = None,
    warmup_ms: int = 200,
    iterations: int = 10,
    duration_s: float = 3.0,
    extra: Sequence[str] = (),
    must_exist: bool = True,
) -> list[str]:
    """Return trtexec's arguments: build `onnx` (and save it as `engine`), or load `engine`; `extra` is passed on as is.

    With `must_exist` false the command is for another machine, so that the files need not be on this one.

    Raises:
        InputError: nothing to build or to load, or a missing file.
    """
    own = {argument.partition("=")[0] for argument in extra}
    if not onnx and not engine and not {"--onnx", "--loadEngine", "--help", "-h"} & own:
        raise InputError("trtexec needs a model: give --onnx M (to build it) or --engine E (to load it)")
    source = onnx or engine
    if must_exist and source and not Path(source).is_file():
        raise InputError(f"cannot read {source}: no such file; write it with trtlab export or trtlab build")
    options = {"--onnx": onnx, "--saveEngine" if onnx else "--loadEngine": engine}
    options |= {"--warmUp": warmup_ms, "--iterations": iterations, "--duration": f"{duration_s:g}"}
    ours = [f"{name}={value}" for name, value in options.items() if value is not None and name not in own]
    return [*ours, *extra]


def run_trtexec(arguments: Sequence[str], log: str | Path | None, echo: Callable[[str], None]) -> None:
    """Run trtexec, pass each line of its output to `echo`, and keep it in `log`: all of it, or what came so far.

    Raises:
        EngineUnavailableError: trtexec is not installed.
        EngineError: it failed; the text holds its first error line.
    """
    lines: list[str] = []
    command = [find_trtexec(), *arguments]
    try:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process:
            for line in process.stdout or ():
                lines.append(line)
                echo(line.rstrip("\n"))
    finally:
        if log is not None:
            atomic_write(log, "".join(lines))
    if process.returncode:
        first = next((line.strip() for line in lines if "[E] " in line), "it printed no error line")
        raise EngineError(f"trtexec failed with exit code {process.returncode}: {first[:300]}; see its output above")
