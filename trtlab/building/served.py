"""A whole build in one call, so that it can run where strangers' files are loaded."""

import tempfile
from pathlib import Path
from typing import Any

from helpers.checks.probes.loads import loads
from trtlab.building.build import build_engine
from trtlab.building.build_options import BuildOptions


@loads(seconds=900)
def built(model: bytes, options: dict[str, Any], cache: bytes | None = None) -> bytes:
    """Return the plan that `build_engine` makes of an ONNX model, with a calibration cache if one is given.

    Args:
        options: what `BuildOptions` is given besides the cache.

    Raises:
        LabError: as that does.
    """
    with tempfile.TemporaryDirectory() as name:
        onnx, scales, target = (Path(name) / file for file in ("model.onnx", "model.cache", "model.engine"))
        onnx.write_bytes(model)
        if cache is not None:
            scales.write_bytes(cache)
            options = {**options, "calib_cache": scales}
        build_engine(onnx, target, BuildOptions(**options))
        return target.read_bytes()
