"""What `trtlab sensitivity` is asked for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trtcpu.errors import InputError
from trtlab.options import Amount, BatchSize, Count


@Parameter(name="*")
@dataclass(frozen=True)
class StudyOptions:
    """What to study: a model, its calibration (a cache, or a tensor that is calibrated with once) and the images."""

    onnx: Path
    """ONNX model, an image classifier."""
    out: Path = Path("sensitivity.json")
    """JSON to write after each engine, and a chart beside it; where it is there, the study goes on."""
    data: str = "digits"
    """The images: digits, imagenette, imagenet:FOLDER, cifar10[:FOLDER] or folder:FOLDER (one folder a class)."""
    calib_cache: Path | None = None
    """Calibration cache that all scales come from."""
    calib_npy: Path | None = None
    """Or a tensor of calib-data, to calibrate with once."""
    num_samples: Count = 500
    """Validation images."""
    batch_size: BatchSize = 8
    """Images per batch, for evaluation and timing."""
    target_loss: Amount = 0.2
    """Points of top-1 that the mixed engine may lose against FP32."""
    layers: bool = False
    """Also each layer of the two most sensitive groups, alone."""
    keep_engines: bool = False
    """Keep every engine, in OUT.parts."""
    iterations: Annotated[int, Parameter(parse=False)] = 100
    warmup_ms: Annotated[float, Parameter(parse=False)] = 200.0

    def check(self) -> None:
        """Raise InputError where not exactly one calibration is given, or a file is missing."""
        if (self.calib_cache is None) == (self.calib_npy is None):
            raise InputError("give one of --calib-cache and --calib-npy: all engines take their scales from it")
        for path in (self.onnx, self.calib_cache or self.calib_npy):
            if not path.is_file():
                raise InputError(f"{path} is not there; make it with trtlab export, or trtlab calib-data")
