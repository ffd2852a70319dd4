"""What a build is asked for, checked before anything slow starts."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.engine.backend import DEVICE, trt
from trtcpu.errors import InputError
from trtlab.building.layer_precisions import check_asked
from trtlab.building.typed import always_typed, check_typed
from trtlab.engines.shapes import Range, complete_ranges, merge_shapes
from trtlab.images.preprocessing_record import NOTHING, Asked

if TYPE_CHECKING:
    from trtlab.engines.network import ParsedModel

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "int8", "int8+fp16")
_KINDS = ("entropy", "minmax", "percentile")
_DEFAULT_OPT_BATCH, _DEFAULT_MAX_BATCH = 8, 32


@dataclass(frozen=True)
class BuildOptions:
    """Options of one build; batches left at None become 1, 8 and 32 where the model's batch is dynamic.

    `shapes` and its three companions are the profile in trtexec's spelling, one text an input.

    Calibration of an INT8 build: `calib_images` (a folder) or `calib_npy` (a tensor, or an .npz of named inputs), and
    then `calib_cache` is where the cache is written (default: beside the engine); or `calib_cache` alone, whose scales
    are used without any image. `calib_count` takes so many of the folder's images; `preprocessing` is what the options
    say of it.

    Mixed precision: `keep_fp16` names groups, `layer_precisions` single layers (NAME:PRECISION), and
    `precision_constraints` is obey or prefer (layer_precisions.py).

    `explicit` writes the precision into the model (typed.py), as TensorRT 11 does always. `strict` refuses an engine
    in which nothing runs as asked (what_ran.py); else the record warns of it.
    """

    precision: str = "fp32"
    workspace_mb: int = 2048
    min_batch: int | None = None
    opt_batch: int | None = None
    max_batch: int | None = None
    calibrator: str | None = None
    calib_npy: str | Path | None = None
    calib_images: str | Path | None = None
    calib_cache: str | Path | None = None
    timing_cache: str | Path | None = None
    opt_level: int | None = None
    detailed: bool = True
    calib_count: int | None = None
    preprocessing: Asked = NOTHING
    shapes: tuple[str, ...] = ()
    min_shapes: tuple[str, ...] = ()
    opt_shapes: tuple[str, ...] = ()
    max_shapes: tuple[str, ...] = ()
    keep_fp16: tuple[str, ...] = ()
    layer_precisions: tuple[str, ...] = ()
    precision_constraints: str = "obey"
    explicit: bool = False
    strict: bool = False

    @property
    def typed(self) -> bool:
        """Whether the precision is written into the model, and no flag asks for it."""
        return (self.explicit or always_typed()) and self.precision not in ("fp32", "tf32")

    @property
    def int8(self) -> bool:
        """Whether the build quantises."""
        return self.precision.startswith("int8")

    @property
    def calibration_source(self) -> str | None:
        """The images or the tensor that calibrate, or None."""
        source = self.calib_npy or self.calib_images
        return str(source) if source else None

    def check(self) -> None:
        """Raise InputError for options that are wrong on their own or contradict each other."""
        if self.precision not in PRECISIONS:
            raise InputError(f"precision {self.precision!r} is unknown; choose one of {', '.join(PRECISIONS)}")
        if self.precision == "bf16" and not hasattr(trt, "bfloat16"):
            raise InputError(f"{DEVICE} has no BF16 builds; choose fp16")
        if self.workspace_mb < 1:
            raise InputError(f"a workspace of {self.workspace_mb} MB is impossible; give 1 or more")
        if self.opt_level is not None and self.opt_level not in range(6):
            raise InputError(f"optimization level {self.opt_level} does not exist; choose 0 to 5")
        check_typed(self.precision, self.explicit)
        check_asked(self.keep_fp16, self.layer_precisions, self.precision_constraints, self.precision)
        self._check_calibration()

    def _check_calibration(self) -> None:
        if self.calibrator not in (None, *_KINDS):
            raise InputError(f"calibrator {self.calibrator!r} is unknown; choose one of {', '.join(_KINDS)}")
        if self.calib_npy and self.calib_images:
            raise InputError("--calib-npy and --calib-images exclude each other; give one")
        if self.calib_count is not None and not self.calib_images:
            raise InputError(f"--calib-count {self.calib_count} is for --calib-images; a tensor is used whole")
        given = self.calibration_source or self.calib_cache or self.calibrator
        if given and not self.int8:
            raise InputError(f"calibration ({given}) does nothing to {self.precision}; add --precision int8 or drop it")

    def ranges(self, model: "ParsedModel") -> dict[str, Range]:
        """Return the profile's minimum, optimum and maximum shape of every input of `model`.

        An input that was not given has the batches of one that was.

        Raises:
            InputError: shapes and batches that contradict the model or each other, or that are missing.
        """
        names = list(model.inputs)
        asked = merge_shapes(self.shapes, self.min_shapes, self.opt_shapes, self.max_shapes, names)
        batch = next((name for name in asked if model.inputs[name][:1] == (-1,)), None)
        if batch is None:
            batches = self.batches(model.fixed_batch, str(model.path))
        elif (self.min_batch, self.opt_batch, self.max_batch) != (None, None, None):
            raise InputError(f"--shapes sets the batch of {batch}; drop --min-batch, --opt-batch and --max-batch")
        else:
            batches = tuple(shape[0] for shape in asked[batch])
        return complete_ranges(model.inputs, asked, batches, model.axis_names())

    def batches(self, fixed: int | None, model: str) -> tuple[int, int, int]:
        """Return minimum, optimum and maximum batch for a model whose batch is `fixed`, or dynamic (None).

        Raises:
            InputError: the batches contradict the model or each other.
        """
        asked = (self.min_batch, self.opt_batch, self.max_batch)
        if fixed is not None:
            self._check_fixed(fixed, model, asked)
            return fixed, fixed, fixed
        least = 1 if self.min_batch is None else self.min_batch
        most = max(_DEFAULT_MAX_BATCH, self.opt_batch or least) if self.max_batch is None else self.max_batch
        best = min(max(_DEFAULT_OPT_BATCH, least), most) if self.opt_batch is None else self.opt_batch
        if not 1 <= least <= best <= most:
            raise InputError(f"batches must satisfy 1 <= min <= opt <= max; found min {least}, opt {best}, max {most}")
        return least, best, most

    @staticmethod
    def _check_fixed(fixed: int, model: str, asked: tuple[int | None, ...]) -> None:
        for name, batch in zip(("min", "opt", "max"), asked, strict=True):
            if batch not in (None, fixed):
                raise InputError(
                    f"{model} has a fixed batch of {fixed}, so --{name}-batch {batch} is impossible; "
                    "drop the option, or export with --dynamic-batch"
                )
