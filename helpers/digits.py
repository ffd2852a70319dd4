"""Cluttered digits: scikit-learn's 8×8 handwritten digits, each composed into a 256×256 RGB image.

`render` gives the same bytes on every machine: all pixel arithmetic is on integers, randomness comes from
`np.random.RandomState.random_sample` and `.bytes` (streams frozen by NumPy's policy) and rotations are rational, so no
BLAS, SIMD width, compiler or maths library can change a pixel. It needs NumPy alone.
"""

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

__all__ = [
    "CLASSES",
    "SIZE",
    "SPLITS",
    "VERSION",
    "load_digits",
    "render",
    "render_many",
    "render_variant",
    "split_digits",
    "variants",
]

VERSION = 1  # raise it whenever a pixel of any image changes: cached images of another version are not used
SIZE = 256
CLASSES = [str(digit) for digit in range(10)]
SPLITS = ("train", "calibration", "validation")
DIGITS_FILE = Path(__file__).resolve().parents[1] / "datasets" / "digits.npz"

_DIGITS_PER_CLASS = {"validation": 40, "calibration": 13}
_VARIANTS = {"train": 4, "calibration": 4, "validation": 5}
_SPLIT_SEED = 20261120
_SEEDS_PER_DIGIT = 10_000

_CELLS = 4  # the background interpolates 5×5 colours over 4×4 cells
_CELL = SIZE // _CELLS
_GRAIN = SIZE // 2  # noise is drawn in 2×2 pixel grains, which keeps the PNG files small
_OPAQUE = 128  # alpha of a fully covered pixel: 255 · 128 still fits int16
_MIN_CONTRAST = 24  # least difference of luminance between paper and ink, in levels
_MAX_TURN = 0.3  # tangent of half the largest rotation: ±33°
_STRETCH = 0.25  # the digit's height and width differ by up to this share
_STROKES_BEHIND = 4
_STROKES_IN_FRONT = 8
_STROKE_WIDTHS = (20, 160)  # half-widths, in 1/16 pixel
_CONFUSING_SHARE = 0.6  # of the strokes: half of these look like ink, half like paper that cuts the digit
_NOISE = (6, 51)  # strengths; ±100 levels at most
_AXIS = np.arange(SIZE, dtype=np.int32) - SIZE // 2
_RAMP = np.array([(3 * _CELL - 2 * w) * w * w // _CELL**2 for w in range(_CELL)], dtype=np.int16)  # smoothstep

RandomState = np.random.RandomState


@functools.cache
def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """Return the 1,797 digits as uint8 [1797, 8, 8] with values 0–16, and their labels as uint8 [1797]."""
    with np.load(DIGITS_FILE) as file:
        return file["images"], file["labels"]


@functools.cache
def split_digits(split: str) -> tuple[int, ...]:
    """Return the original digits of a split, the classes taking turns; no digit is in two splits."""
    rng = RandomState(_SPLIT_SEED)
    labels = load_digits()[1]
    by_class = [np.flatnonzero(labels == label) for label in range(len(CLASSES))]
    shuffled = [digits[np.argsort(rng.random_sample(len(digits)), kind="stable")] for digits in by_class]
    columns = [_take_split(digits, split) for digits in shuffled]
    longest = max(map(len, columns))
    return tuple(int(column[row]) for row in range(longest) for column in columns if row < len(column))


def _take_split(shuffled: np.ndarray, split: str) -> np.ndarray:
    validation, calibration = _DIGITS_PER_CLASS["validation"], _DIGITS_PER_CLASS["calibration"]
    bounds = {
        "validation": slice(0, validation),
        "calibration": slice(validation, validation + calibration),
        "train": slice(validation + calibration, None),
    }
    return shuffled[bounds[split]]


def variants(split: str, per_digit: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield (digit, variant) for every image of a split: each prefix holds as many of every class as it can."""
    for variant in range(_VARIANTS[split] if per_digit is None else per_digit):
        for digit in split_digits(split):
            yield digit, variant


def render_variant(digit: int, variant: int, clutter: bool = True) -> np.ndarray:
    """Return image `variant` of original digit `digit` as uint8 [256, 256, 3] RGB."""
    return render(load_digits()[0][digit], digit * _SEEDS_PER_DIGIT + variant, clutter)


def render_many(pairs: Sequence[tuple[int, int]], clutter: bool = True) -> np.ndarray:
    """Return the images of several (digit, variant) pairs as uint8 [N, 256, 256, 3]; made for a pool of workers."""
    return np.stack([render_variant(digit, variant, clutter) for digit, variant in pairs])


def render(pixels: np.ndarray, seed: int, clutter: bool = True) -> np.ndarray:
    """Compose one digit, uint8 [8, 8] with values 0–16, into a uint8 [256, 256, 3] RGB image.

    Without `clutter` there are no distractor strokes and no noise: training starts on such images.
    """
    rng = RandomState(seed)
    paper, ink = _contrasting_colours(rng)
    image = _background(rng, paper)
    _draw_strokes(rng, image, _STROKES_BEHIND * clutter, (paper, ink))
    _blend(image, _digit_alpha(rng, pixels), ink)
    _draw_strokes(rng, image, _STROKES_IN_FRONT * clutter, (paper, ink))
    if clutter:
        _add_noise(rng, image)
    return np.ascontiguousarray(np.clip(image, 0, 255).astype(np.uint8).transpose(1, 2, 0))


def _integers(rng: RandomState, low: int, high: int, size: int | tuple[int, ...]) -> np.ndarray:
    """Draw integers in [low, high): one multiplication and one truncation of IEEE doubles, the same everywhere."""
    return (rng.random_sample(size) * (high - low)).astype(np.int32) + low


def _integer(rng: RandomState, low: int, high: int) -> int:
    return int(rng.random_sample() * (high - low)) + low


def _contrasting_colours(rng: RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Draw a paper and an ink colour, int [3] each, whose luminances differ enough to read the digit."""
    luminance = np.array([77, 150, 29], dtype=np.int32)  # ITU-R BT.601 weights in 1/256
    while True:
        paper, ink = _integers(rng, 20, 236, (2, 3))
        if abs(int(((paper - ink) * luminance).sum())) >= _MIN_CONTRAST * 256:
            return paper, ink


def _background(rng: RandomState, paper: np.ndarray) -> np.ndarray:
    """Return a smooth background around one colour as int16 [3, 256, 256], values 0–255."""
    knots = paper[:, None, None] + _integers(rng, -70, 71, (3, _CELLS + 1, _CELLS + 1))
    knots = np.clip(knots, 0, 255).astype(np.int16)
    rows = knots[:, :, :-1, None] * (_CELL - _RAMP) + knots[:, :, 1:, None] * _RAMP
    rows = (rows >> 6).reshape(3, _CELLS + 1, 1, SIZE)
    ramp = _RAMP[:, None]
    image = rows[:, :-1] * (_CELL - ramp)
    image += rows[:, 1:] * ramp
    image >>= 6
    return image.reshape(3, SIZE, SIZE)


def _rotation(rng: RandomState, most: float) -> tuple[float, float]:
    """Draw (cos, sin) of an angle up to ±2·atan(most) as a rational point of the circle: no trigonometry needed."""
    t = (rng.random_sample() * 2 - 1) * most
    return (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)


def _digit_alpha(rng: RandomState, pixels: np.ndarray) -> np.ndarray:
    """Rotate, scale and place the digit; return its coverage as int16 [256, 256], values 0–128.

    Bilinear sampling in fixed point: positions in 1/65536 of a source pixel, weights in 1/32.
    """
    cosine, sine = _rotation(rng, _MAX_TURN)
    step = 8 * 65536 / _integer(rng, 112, 190)
    shift = _integers(rng, -30, 31, 2)
    tall = step * (1 + (rng.random_sample() * 2 - 1) * _STRETCH)
    x, y = _AXIS - shift[0], _AXIS - shift[1]
    centre = 5 * 65536 - 32768
    u = np.clip((int(cosine * step) * x)[None, :] + (int(sine * step) * y + centre)[:, None], 0, 10 * 65536 - 1)
    v = np.clip((int(-sine * tall) * x)[None, :] + (int(cosine * tall) * y + centre)[:, None], 0, 10 * 65536 - 1)
    coverage = _sample(np.pad(pixels, (1, 2)).astype(np.int16), u, v)
    coverage -= _integer(rng, 6000, 8600)  # the threshold sets how bold the pen is
    coverage >>= 4
    return np.clip(coverage, 0, _OPAQUE)


def _sample(table: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Sample int16 `table` at (u, v) in 1/65536 pixel; return the value in 1/1024 as int16 of u's shape."""
    width = table.shape[1]
    index = ((v >> 16) * width + (u >> 16)).astype(np.intp)
    right, down = ((u >> 11) & 31).astype(np.int16), ((v >> 11) & 31).astype(np.int16)
    flat = table.ravel()
    top = flat.take(index) * (32 - right) + flat.take(index + 1) * right
    bottom = flat.take(index + width) * (32 - right) + flat.take(index + width + 1) * right
    return top * (32 - down) + bottom * down


def _draw_strokes(rng: RandomState, image: np.ndarray, most: int, confusing: Sequence[np.ndarray]) -> None:
    """Draw up to `most` curved strokes of random place, direction, bend and width that belong to no digit.

    Some take a random colour, the others nearly one of the two `confusing` ones.
    """
    for _ in range(_integer(rng, 0, most + 1)):
        pick, colour = rng.random_sample(), _integers(rng, 0, 256, 3)
        if pick < _CONFUSING_SHARE:
            colour = np.clip(confusing[pick < _CONFUSING_SHARE / 2] + (colour >> 3) - 16, 0, 255)
        _blend(image, _stroke_alpha(rng), colour)


def _stroke_alpha(rng: RandomState) -> np.ndarray:
    """Return one stroke's coverage as int16 [256, 256]: a parabola of limited length, in 1/16 pixel."""
    cosine, sine = _rotation(rng, 1.0)
    a, b = int(cosine * 16), int(sine * 16)
    place = _integers(rng, -120, 121, 2)
    length, width, bend = _integer(rng, 20, 80) * 16, _integer(rng, *_STROKE_WIDTHS), _integer(rng, -40, 41)
    x, y = _AXIS - place[0], _AXIS - place[1]
    along = (a * x)[None, :] + (b * y)[:, None]
    across = (-b * x)[None, :] + (a * y)[:, None]
    across += (along * along >> 8) * bend >> 9
    inside = np.minimum(width - np.abs(across), length - np.abs(along))
    return np.clip(inside * 4, 0, _OPAQUE).astype(np.int16)


def _blend(image: np.ndarray, alpha: np.ndarray, colour: np.ndarray) -> None:
    """Paint `colour` over int16 `image` [3, 256, 256] where `alpha` [256, 256] (0–128) says, in place."""
    for channel, value in zip(image, colour, strict=True):
        channel += (np.int16(value) - channel) * alpha >> 7


def _add_noise(rng: RandomState, image: np.ndarray) -> None:
    """Add triangular noise of a random strength in 2×2 grains to int16 `image`, in place."""
    strength = _integer(rng, *_NOISE)
    draws = np.frombuffer(rng.bytes(2 * 3 * _GRAIN * _GRAIN), dtype=np.uint8).reshape(2, 3, _GRAIN, _GRAIN)
    grains = (draws[0].astype(np.int16) + draws[1] - 255) * np.int16(strength) >> 7
    image.reshape(3, _GRAIN, 2, _GRAIN, 2)[...] += grains[:, :, None, :, None]
