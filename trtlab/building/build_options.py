"""What a build is asked for, checked before anything slow starts."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trtcpu.errors import InputError
from trtlab.engines.shapes import Range, complete_ranges, merge_shapes
from trtlab.images.preprocessing_record import NOTHING, Asked
from trtlab.options import Count, Level, Texts

if TYPE_CHECKING:
    from trtlab.engines.network import ParsedModel

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "int8", "int8+fp16")
_KINDS = ("entropy", "minmax", "percentile")
_DEFAULT_OPT_BATCH, _DEFAULT_MAX_BATCH = 8, 32


@Parameter(name="*")
@dataclass(frozen=True)
class BuildOptions:
    """Options of one build; batches left at None become 1, 8 and 32 where the model's batch is dynamic.

    The profile's shapes are texts in trtexec's spelling, one an input. Calibration takes images or a tensor, and writes
    the cache (default: beside the engine); or the cache alone. layer_precisions.py tells of the layers' precisions,
    typed.py of `explicit`, and what_ran.py of `strict`. The text below an option is its help.
    """

    precision: str = "fp32"
    """fp32, tf32, fp16, bf16, int8 or int8+fp16."""
    workspace_mb: Count = 2048
    """Memory that tactics may use, in MiB."""
    min_batch: Count | None = None
    """Smallest batch of a dynamic model's profile, in images (1)."""
    opt_batch: Count | None = None
    """Batch to tune for, in images (8)."""
    max_batch: Count | None = None
    """Largest batch, in images (32)."""
    shapes: Texts = ()
    """Profile of an input as trtexec spells it: NAME:MIN:OPT:MAX such as tokens:1x8:4x64:8x128, or one shape; once for
    each input, or with commas."""
    min_shapes: Texts = ()
    """Smallest shapes alone: tokens:1x8."""
    opt_shapes: Texts = ()
    """Shapes to tune for: tokens:4x64."""
    max_shapes: Texts = ()
    """Largest shapes: tokens:8x128."""
    calib_images: Path | None = None
    """INT8: calibrate with a folder of images."""
    calib_count: Count | None = None
    """INT8: images of the folder to take, spread evenly; all if left out."""
    calib_npy: Path | None = None
    """INT8: calibrate with a tensor of calib-data, or an .npz of named inputs."""
    calib_cache: Path | None = None
    """INT8: take the scales from this cache; with calibration data, write it."""
    calibrator: str | None = None
    """INT8: entropy, minmax or percentile (entropy, or the cache's own)."""
    keep_fp16: Texts = ()
    """int8+fp16: groups of layers that stay in FP16, and with them the first and the last layer."""
    layer_precisions: Texts = ()
    """Precision of single layers as trtexec spells it: NAME:fp16, * for any."""
    precision_constraints: str = "obey"
    """obey, or prefer where a kernel may be lacking."""
    explicit: bool = False
    """Write the precision into the model, Q/DQ and casts, and build that (ENGINE.onnx); TensorRT 11 does it always."""
    strict: bool = False
    """Refuse an engine in which nothing runs in the precision asked for."""
    timing_cache: Path | None = None
    """Cache of tactic timings to use and write."""
    opt_level: Level | None = None
    """Builder optimization level: 0 (fast build) to 5 (fast engine); TensorRT has 3."""
    preprocessing: Asked = NOTHING
    detailed: Annotated[bool, Parameter(parse=False)] = True

    @property
    def typed(self) -> bool:
        """Whether the precision is written into the model, and no flag asks for it."""
        from trtlab.building.typed import always_typed

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
        from helpers.engine.backend import DEVICE, trt
        from trtlab.building.layer_precisions import check_asked
        from trtlab.building.typed import check_typed

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
