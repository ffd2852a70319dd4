"""Cluttered digits: scikit-learn's 8×8 handwritten digits, composed into RGB images like photos of house numbers.

The class is the digit in the middle. It is warm (red, orange or yellow). In half of the images a cold decoy of another
class (blue or cyan) lies beside or partly under it, and warm neighbours of other classes lie in the margins, which a
centre crop cuts off. The background is dark, images are landscapes or portraits of many sizes. So what a network learns
here depends on preprocessing: which channel is red, how dark dark is, what the crop shows and at which proportions.

`render` gives the same bytes on every machine: all pixel arithmetic is on integers, randomness comes from
`np.random.RandomState.random_sample` and `.bytes` (streams frozen by NumPy's policy) and rotations are rational, so no
BLAS, SIMD width, compiler or maths library can change a pixel. It needs NumPy alone.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

VERSION = 2  # raise it whenever a pixel of any image changes: cached images of another version are not used
CLASSES = [str(digit) for digit in range(10)]
SPLITS = ("train", "calibration", "validation")
DIGITS_FILE = Path(__file__).resolve().parents[2] / "datasets" / "digits.npz"

_DIGITS_PER_CLASS = {"validation": 40, "calibration": 13}
_VARIANTS = {"train": 4, "calibration": 4, "validation": 5}
_SPLIT_SEED = 20261120
_SEEDS_PER_DIGIT = 10_000

_SHORTER_SIDE = (160, 272)  # pixels; lengths below that depend on it are given for 256
_ASPECT = (145, 180)  # longer side over shorter, in percent
_LANDSCAPE = 0.75  # share; the others are portraits
_CELL = 64  # the background interpolates colours between knots that are so many pixels apart
_OPAQUE = 128  # alpha of a fully covered pixel: 255 · 128 still fits int16
_PAPER = (30, 100)  # grey level of the background, with tints of up to _TINT
_TINT = 30
_WARM = np.array([[200, 256], [80, 190], [0, 70]])  # red, green, blue; the cold colours are these in reverse order
_BOX = (128, 168)  # edge of the square of 8×8 source pixels
_OFF_CENTRE = 14
_NEIGHBOUR = (152, 176)  # from the middle; a centre crop of 224 of 256 ends at 112
_DECOY = (62, 88)
_DECOY_SHARE = 0.5
_MAX_TURN = 0.16  # tangent of half the largest rotation: ±18°
_STRETCH = 0.12  # the digit's height and width differ by up to this share
_PEN = (2600, 4200)  # coverage in 1/1024 where ink begins: a lower one makes a bolder pen
_STROKES = 5
_STROKE_LENGTHS = (20, 70)  # from the middle
_STROKE_WIDTHS = (16, 56)  # half-widths, in 1/16 pixel
_NOISE = (6, 32)  # strengths; ±64 levels at most
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


def variants(split: str) -> Iterator[tuple[int, int]]:
    """Yield (digit, variant) for every image of a split: each prefix holds as many of every class as it can."""
    for variant in range(_VARIANTS[split]):
        for digit in split_digits(split):
            yield digit, variant


def render_variant(digit: int, variant: int) -> np.ndarray:
    """Return image `variant` of original digit `digit` as uint8 [H, W, 3] RGB; its other digits are of its split."""
    members = next(members for members in map(split_digits, SPLITS) if digit in members)
    images, labels = load_digits()
    return render(images[digit], images[_others(members, labels[digit])], digit * _SEEDS_PER_DIGIT + variant)


@functools.cache
def _others(members: tuple[int, ...], label: int) -> np.ndarray:
    """Return the digits among `members` that are of another class."""
    return np.array([digit for digit in members if load_digits()[1][digit] != label])


def render_many(pairs: Sequence[tuple[int, int]]) -> list[np.ndarray]:
    """Return the images of several (digit, variant) pairs; made for a pool of workers."""
    return [render_variant(digit, variant) for digit, variant in pairs]


def render(pixels: np.ndarray, others: np.ndarray, seed: int) -> np.ndarray:
    """Compose the digit `pixels`, uint8 [8, 8] with values 0–16, into a uint8 [H, W, 3] RGB image.

    `others`, uint8 [N, 8, 8], are what the neighbours and the decoy are drawn from.
    """
    rng = RandomState(seed)
    scene = Scene.draw(rng)
    _draw_strokes(rng, scene)
    for place in _neighbours(rng, scene):
        _draw_digit(rng, scene, _pick(rng, others), place, _warm(rng))
    place = scene.middle + scene.scaled(_integers(rng, -_OFF_CENTRE, _OFF_CENTRE + 1, 2))
    if rng.random_sample() < _DECOY_SHARE:
        _draw_digit(rng, scene, _pick(rng, others), _beside(rng, scene, place), _warm(rng)[::-1])
    _draw_digit(rng, scene, pixels, place, _warm(rng))
    _draw_strokes(rng, scene)
    _add_noise(rng, scene.image)
    return np.ascontiguousarray(np.clip(scene.image, 0, 255).astype(np.uint8).transpose(1, 2, 0))


@dataclass(frozen=True)
class Scene:
    """An image, int16 [3, H, W] with values 0–255, and its shorter side."""

    image: np.ndarray
    short: int

    @classmethod
    def draw(cls, rng: RandomState) -> "Scene":
        """Draw a size and a smooth background."""
        short = _integer(rng, *_SHORTER_SIDE) & ~1
        long = short * _integer(rng, *_ASPECT) // 100 & ~1
        landscape = rng.random_sample() < _LANDSCAPE
        return cls(_background(rng, *((short, long) if landscape else (long, short))), short)

    @property
    def middle(self) -> np.ndarray:
        """The middle as (y, x)."""
        return np.array(self.image.shape[1:]) // 2

    def scaled(self, length: int | np.ndarray) -> int | np.ndarray:
        """Return a length that is given for a shorter side of 256."""
        return length * self.short >> 8

    def window(self, place: np.ndarray, reach: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the part of the image up to `reach` pixels around `place`, and its rows' and columns' distances from
        there."""
        (top, left), (bottom, right) = np.maximum(place - reach, 0), place + reach
        part = self.image[:, top:bottom, left:right]
        rows, columns = (np.arange(size, dtype=np.int32) for size in part.shape[1:])
        return part, rows + int(top - place[0]), columns + int(left - place[1])


def _integers(rng: RandomState, low: int, high: int, size: int | tuple[int, ...]) -> np.ndarray:
    """Draw integers in [low, high): one multiplication and one truncation of IEEE doubles, the same everywhere."""
    return (rng.random_sample(size) * (high - low)).astype(np.int32) + low


def _integer(rng: RandomState, low: int, high: int) -> int:
    return int(rng.random_sample() * (high - low)) + low


def _pick(rng: RandomState, digits: np.ndarray) -> np.ndarray:
    return digits[_integer(rng, 0, len(digits))]


def _warm(rng: RandomState) -> np.ndarray:
    """Draw a red, orange or yellow, int [3]; its channels in reverse order are a blue or cyan."""
    return np.array([_integer(rng, *bounds) for bounds in _WARM])


def _neighbours(rng: RandomState, scene: Scene) -> list[np.ndarray]:
    """Draw the places of two digits left and right of the middle, or above and below in a portrait."""
    along = np.array(scene.image.shape[1:]) > scene.short
    aside = _integers(rng, -_OFF_CENTRE, _OFF_CENTRE + 1, 2)
    distances = _integers(rng, *_NEIGHBOUR, 2) * np.array([-1, 1])
    return [scene.middle + scene.scaled(np.where(along, d, a)) for d, a in zip(distances, aside, strict=True)]


def _beside(rng: RandomState, scene: Scene, place: np.ndarray) -> np.ndarray:
    """Draw a place in any direction from `place`, so near that a centre crop still shows what is there."""
    direction = np.array(_rotation(rng, 1.0)) * (1 if rng.random_sample() < 0.5 else -1)
    return place + (scene.scaled(_integer(rng, *_DECOY)) * direction).astype(np.int32)


def _background(rng: RandomState, height: int, width: int) -> np.ndarray:
    """Return a smooth, rather dark background as int16 [3, H, W], values 0–255."""
    cells = -(-height // _CELL), -(-width // _CELL)
    knots = _integer(rng, *_PAPER) + _integers(rng, -_TINT, _TINT + 1, (3, cells[0] + 1, cells[1] + 1))
    knots = np.clip(knots, 0, 255).astype(np.int16)
    rows = knots[:, :, :-1, None] * (_CELL - _RAMP) + knots[:, :, 1:, None] * _RAMP
    rows = (rows >> 6).reshape(3, cells[0] + 1, 1, cells[1] * _CELL)[..., :width]
    ramp = _RAMP[:, None]
    image = rows[:, :-1] * (_CELL - ramp)
    image += rows[:, 1:] * ramp
    image >>= 6
    return image.reshape(3, cells[0] * _CELL, width)[:, :height]


def _rotation(rng: RandomState, most: float) -> tuple[float, float]:
    """Draw (cos, sin) of an angle up to ±2·atan(most) as a rational point of the circle: no trigonometry needed."""
    t = (rng.random_sample() * 2 - 1) * most
    return (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)


def _draw_digit(rng: RandomState, scene: Scene, pixels: np.ndarray, place: np.ndarray, colour: np.ndarray) -> None:
    """Rotate and scale a digit and paint it around `place` (y, x)."""
    box = scene.scaled(_integer(rng, *_BOX))
    part, y, x = scene.window(place, box * 3 // 4)
    if part.size:
        _blend(part, _digit_alpha(rng, pixels, box, y, x), colour)


def _digit_alpha(rng: RandomState, pixels: np.ndarray, box: int, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the coverage of a digit of `box` pixels at these distances from its middle: int16 [H, W], values 0–128.

    Bilinear sampling in fixed point: positions in 1/65536 of a source pixel, weights in 1/32.
    """
    cosine, sine = _rotation(rng, _MAX_TURN)
    step = 8 * 65536 / box
    tall = step * (1 + (rng.random_sample() * 2 - 1) * _STRETCH)
    centre = 5 * 65536 - 32768
    u = np.clip((int(cosine * step) * x)[None, :] + (int(sine * step) * y + centre)[:, None], 0, 10 * 65536 - 1)
    v = np.clip((int(-sine * tall) * x)[None, :] + (int(cosine * tall) * y + centre)[:, None], 0, 10 * 65536 - 1)
    coverage = _sample(np.pad(pixels, (1, 2)).astype(np.int16), u, v)
    coverage -= _integer(rng, *_PEN)
    coverage >>= 6  # a soft pen keeps the faint parts of thin strokes and the holes of bold ones
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


def _draw_strokes(rng: RandomState, scene: Scene) -> None:
    """Draw some curved strokes that belong to no digit: half of them warm, the others of any colour."""
    for _ in range(_integer(rng, 0, _STROKES + 1)):
        colour = _warm(rng) if rng.random_sample() < 0.5 else _integers(rng, 0, 256, 3)
        length = scene.scaled(_integer(rng, *_STROKE_LENGTHS))
        place = (rng.random_sample(2) * scene.image.shape[1:]).astype(np.int32)
        part, y, x = scene.window(place, length)
        _blend(part, _stroke_alpha(rng, scene, length, y, x), colour)


def _stroke_alpha(rng: RandomState, scene: Scene, length: int, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the coverage of a parabola `length` pixels to each side at these distances: int16 [H, W], in 1/128."""
    cosine, sine = _rotation(rng, 1.0)
    a, b = int(cosine * 16), int(sine * 16)  # positions in 1/16 pixel
    width, bend = scene.scaled(_integer(rng, *_STROKE_WIDTHS)), _integer(rng, -40, 41)
    along = (a * x)[None, :] + (b * y)[:, None]
    across = (-b * x)[None, :] + (a * y)[:, None]
    across += (along * along >> 8) * bend >> 9
    inside = np.minimum(width - np.abs(across), 16 * length - np.abs(along))
    return np.clip(inside * 8, 0, _OPAQUE).astype(np.int16)


def _blend(image: np.ndarray, alpha: np.ndarray, colour: np.ndarray) -> None:
    """Paint `colour` over int16 `image` [3, H, W] where `alpha` [H, W] (0–128) says, in place."""
    for channel, value in zip(image, colour, strict=True):
        channel += (np.int16(value) - channel) * alpha >> 7


def _add_noise(rng: RandomState, image: np.ndarray) -> None:
    """Add triangular noise of a random strength in 2×2 grains to int16 `image` [3, H, W], H and W even, in place."""
    _, height, width = image.shape
    strength, shape = _integer(rng, *_NOISE), (3, height // 2, width // 2)
    draws = np.frombuffer(rng.bytes(2 * 3 * height * width // 4), dtype=np.uint8).reshape(2, *shape)
    grains = (draws[0].astype(np.int16) + draws[1] - 255) * np.int16(strength) >> 7
    for row, column in np.ndindex(2, 2):
        image[:, row::2, column::2] += grains
