"""Runs functions of a notebook under another version of TensorRT's API: the CPU engine speaks the one of TRT_LAB_API.

    found = under_api(11, [build_explicit, run_there], "run_there(…)", {"IMAGES": "images.npy"})

A process keeps the API that it began with, so that this is a process of its own, with the names `np`, `Path`, `trt`,
`logger` and `load_definition`, and no others of the notebook. With real TensorRT the API is that of the installed
version.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from helpers.data.storage import one_line
from helpers.tools.cells import source_of
from trtcpu.errors import InputError

_ROOT = Path(__file__).resolve().parents[2]
_ASKED, _ANSWER = "asked.json", "answer.json"


def under_api(api: int, definitions: Sequence[Any], expression: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return {"version", "value"}: TensorRT's version in a process of that API, and what `expression` is there.

    Args:
        api: 10 or 11.
        definitions: functions of the notebook that the expression needs.
        expression: gives plain data.
        values: more names, of plain data.

    Raises:
        InputError: the API is real TensorRT's, the CPU engine does not speak this one, or the process ends with an
            error, which the message names.
    """
    from helpers.engine.backend import ENGINE, trt

    if ENGINE != "cpu":
        installed = trt.__version__
        raise InputError(
            f"TensorRT {installed} is installed, and its API is the one there is; TensorRT {api} is another"
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asked = {
            "definitions": list(map(source_of, definitions)),
            "expression": expression,
            "values": values,
        }
        (folder / _ASKED).write_text(json.dumps(asked))
        _run(folder, api)
        return json.loads((folder / _ANSWER).read_text())


def _run(folder: Path, api: int) -> None:
    from trtcpu.api.version import API_VARIABLE

    search = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, API_VARIABLE: str(api), "TRT_LAB_ENGINE": "cpu", "PYTHONPATH": search}
    command = [sys.executable, "-m", "helpers.toys.other_api", str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise InputError(f"under TensorRT {api}: {last}")


def _answer(folder: Path) -> None:
    """Run the definitions and write what the expression gives, with the version."""
    import numpy as np

    from helpers.course.artifacts import load_definition
    from helpers.engine.backend import trt

    asked = json.loads((folder / _ASKED).read_text())
    logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
    names = {"__name__": "__main__", "np": np, "Path": Path, "trt": trt, "logger": logger, **asked["values"]}
    names["load_definition"] = load_definition
    try:
        for source in asked["definitions"]:
            exec(compile(source, "a definition of the notebook", "exec"), names)
        value = eval(asked["expression"], names)
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {one_line(error)}")
    (folder / _ANSWER).write_text(json.dumps({"version": trt.__version__, "value": value}))


if __name__ == "__main__":
    _answer(Path(sys.argv[1]))
