"""What a build is asked for, checked before anything slow starts."""

from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter

from trtcpu.errors import InputError
from trtlab.images.preprocessing_record import NOTHING, Asked
from trtlab.options import Count, Level, Texts

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "int8", "int8+fp16")
_FLOATS = ("fp32", "tf32")
_LAYER_PRECISIONS = ("fp32", "fp16", "bf16", "int8")
_DEFAULT_OPT_BATCH, _DEFAULT_MAX_BATCH = 8, 32


def has_strong_types() -> bool:
    """Say whether this TensorRT has strongly typed networks."""
    from helpers.engine.backend import trt

    return hasattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED")


@Parameter(name="*")
@dataclass(frozen=True)
class BuildOptions:
    """Options of one build; batches left at None become 1, 8 and 32 if the model's batch is dynamic.

    The profile's shapes are texts in trtexec's spelling, one an input. Calibration takes images or a tensor, and writes
    the cache (default: beside the engine); or the cache alone. layer_precisions.py tells of the layers' precisions
    and of `strict`, typed.py of `explicit`.

    Attributes:
        precision: fp32, tf32, fp16, bf16, int8 or int8+fp16.
        workspace_mb: Memory that tactics may use, in MiB.
        min_batch: Smallest batch of the optimization profile (1).
        opt_batch: Batch to tune for (8).
        max_batch: Largest batch (32).
        shapes: Profile of an input in trtexec's spelling: NAME:MIN:OPT:MAX, for example tokens:1x8:4x64:8x128, or one
            shape. Repeat for each input, or separate with commas.
        min_shapes: Smallest shapes only: tokens:1x8.
        opt_shapes: Shapes to tune for: tokens:4x64.
        max_shapes: Largest shapes: tokens:8x128.
        calib_images: INT8: folder of images to calibrate with.
        calib_count: INT8: number of images to take from the folder, spread evenly. Default: all.
        calib_npy: INT8: tensor to calibrate with, from calib-data, or an .npz of named inputs.
        calib_cache: INT8: calibration cache to read; with calibration data, to write.
        calibrator: INT8: entropy, minmax or percentile. Default: entropy, or the cache's.
        keep_fp16: With int8+fp16: groups of layers that stay in FP16. The first and last layer stay too.
        layer_precisions: Precision of single layers in trtexec's spelling: NAME:fp16. * matches any text.
        precision_constraints: obey: fail if a layer has no kernel in its precision; prefer: take another.
        explicit: Write the precision into the model as Q/DQ and casts, and build that model (ENGINE.onnx). TensorRT 11
            always does.
        strict: Fail if no layer runs in the requested precision.
        timing_cache: Timing cache to read and write.
        opt_level: Builder optimization level: 0 (fast build) to 5 (fast engine). Default: TensorRT's, 3.
    """

    precision: str = "fp32"
    workspace_mb: Count = 2048
    min_batch: Count | None = None
    opt_batch: Count | None = None
    max_batch: Count | None = None
    shapes: Texts = ()
    min_shapes: Texts = ()
    opt_shapes: Texts = ()
    max_shapes: Texts = ()
    calib_images: Path | None = None
    calib_count: Count | None = None
    calib_npy: Path | None = None
    calib_cache: Path | None = None
    calibrator: str | None = None
    keep_fp16: Texts = ()
    layer_precisions: Texts = ()
    precision_constraints: str = "obey"
    explicit: bool = False
    strict: bool = False
    timing_cache: Path | None = None
    opt_level: Level | None = None
    preprocessing: Asked = NOTHING

    @property
    def typed(self) -> bool:
        """Whether the precision is written into the model, and no flag asks for it."""
        from helpers.engine import backend

        return (self.explicit or backend.API >= 11) and self.precision not in _FLOATS

    @property
    def int8(self) -> bool:
        """Whether the build quantises."""
        return self.precision.startswith("int8")

    def check(self) -> None:
        """Raise InputError for options that are wrong on their own or contradict each other."""
        from helpers.engine.backend import DEVICE, trt

        precision = self.precision
        calibration = self.calib_npy or self.calib_images or self.calib_cache or self.calibrator
        refusals = {
            f"--precision {precision!r} is unknown; choose one of {', '.join(PRECISIONS)}": precision not in PRECISIONS,
            f"--calibrator {self.calibrator!r} is unknown; choose entropy, minmax or percentile": (
                self.calibrator not in (None, "entropy", "minmax", "percentile")
            ),
            f"--precision-constraints {self.precision_constraints!r} is unknown; choose obey or prefer": (
                self.precision_constraints not in ("obey", "prefer")
            ),
            f"{DEVICE} has no BF16 builds; choose fp16": precision == "bf16" and not hasattr(trt, "bfloat16"),
            f"--explicit does nothing to {precision}; add --precision fp16, bf16, int8 or int8+fp16": (
                self.explicit and precision in _FLOATS
            ),
            f"{DEVICE} has no strongly typed networks; drop --explicit, or use TensorRT 10": (
                self.explicit and not self.int8 and not has_strong_types()
            ),
            f"--keep-fp16 does nothing to {precision}; add --precision int8+fp16 or drop it": (
                self.keep_fp16 and precision != "int8+fp16"
            ),
            "--calib-npy and --calib-images exclude each other; give one": self.calib_npy and self.calib_images,
            f"--calib-count {self.calib_count} is for --calib-images; a tensor is used whole": (
                self.calib_count is not None and not self.calib_images
            ),
            f"calibration ({calibration}) does nothing to {precision}; add --precision int8 or drop it": (
                calibration and not self.int8
            ),
        }
        for text, is_wrong in refusals.items():
            if is_wrong:
                raise InputError(text)
        self.named_precisions()

    def named_precisions(self) -> list[tuple[str, str]]:
        """Return name and precision of each of the `layer_precisions`.

        Raises:
            InputError: one is not of that form, or needs what the build's precision does not allow.
        """
        pairs = [(name, kind) for name, _, kind in (text.rpartition(":") for text in self.layer_precisions)]
        for text, (name, kind) in zip(self.layer_precisions, pairs, strict=True):
            if not name or kind not in _LAYER_PRECISIONS:
                raise InputError(
                    f"--layer-precisions takes NAME:PRECISION with {', '.join(_LAYER_PRECISIONS)}; found {text!r}"
                )
            if kind not in ("fp32", *self.precision.split("+")):
                raise InputError(
                    f"--layer-precisions {text} needs {kind}, which --precision {self.precision} does not allow"
                )
        return pairs

    def batches(self, fixed: int | None, model: Path) -> tuple[int, int, int]:
        """Return minimum, optimum and maximum batch for a model whose batch is `fixed`, or dynamic (None).

        Raises:
            InputError: one that was asked for is not the fixed one.
        """
        asked = {"min": self.min_batch, "opt": self.opt_batch, "max": self.max_batch}
        if fixed is not None:
            for name, batch in asked.items():
                if batch not in (None, fixed):
                    raise InputError(
                        f"{model} has a fixed batch of {fixed}, so --{name}-batch {batch} is impossible; "
                        "drop the option, or export with --dynamic-batch"
                    )
            return fixed, fixed, fixed
        least = self.min_batch or 1
        most = self.max_batch or max(_DEFAULT_MAX_BATCH, self.opt_batch or least)
        return least, self.opt_batch or min(max(_DEFAULT_OPT_BATCH, least), most), most
