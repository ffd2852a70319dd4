"""The renderer: the same pixels everywhere, from digits that are scikit-learn's, in splits that share none."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import map_coordinates
from sklearn.datasets import load_digits

from helpers.data import digits

SAMPLE_SHA256 = {  # of eight images spread over each split, raw pixels in order
    "train": "6c6134ddace8779d0a13a89a68416f2fd7f981a493b1135f261d39a78f095a57",
    "calibration": "6b8d12093b1e536c45a6cec59726f80bbacb02fe8171c709f14385bdf592fe3e",
    "validation": "248d9d7a78739de215e80c07299ef129a1a41c60869e9544a4555e63d253b536",
}


def test_the_stored_digits_are_those_of_scikit_learn() -> None:
    images, labels = digits.load_digits()
    reference = load_digits()
    assert images.dtype == np.uint8 and np.array_equal(images, reference.images)
    assert np.array_equal(labels, reference.target)


@pytest.mark.parametrize("split", digits.SPLITS)
def test_sample_images_have_the_recorded_checksums(split: str) -> None:
    pairs = list(digits.variants(split))
    sample = digits.render_many(pairs[:: len(pairs) // 8][:8])
    assert hashlib.sha256(b"".join(image.tobytes() for image in sample)).hexdigest() == SAMPLE_SHA256[split]


def test_no_original_digit_is_in_two_splits_and_none_is_left_out() -> None:
    members = [digit for split in digits.SPLITS for digit in digits.split_digits(split)]
    assert sorted(members) == list(range(1797))


@pytest.mark.parametrize(("split", "least"), [("train", 5000), ("calibration", 512), ("validation", 2000)])
def test_each_split_is_large_enough(split: str, least: int) -> None:
    pairs = list(digits.variants(split))
    assert len(pairs) >= least and len(set(pairs)) == len(pairs)


@pytest.mark.parametrize("split", ["calibration", "validation"])
@pytest.mark.parametrize("count", [10, 70, 500])
def test_every_prefix_of_ten_images_holds_each_class_once(split: str, count: int) -> None:
    labels = [digits.load_digits()[1][digit] for digit, _ in digits.variants(split)][:count]
    assert np.bincount(labels, minlength=10).tolist() == [count // 10] * 10


def test_variants_of_a_digit_differ_and_a_variant_repeats() -> None:
    first, second = digits.render_variant(7, 0), digits.render_variant(7, 1)
    assert not np.array_equal(first, second)
    assert np.array_equal(first, digits.render_variant(7, 0))


def test_no_image_is_square_most_are_landscapes_and_the_shorter_side_is_seldom_256() -> None:
    sizes = [image.shape[:2] for image in digits.render_many(list(digits.variants("validation"))[:100])]
    height, width = np.array(sizes).T
    aspect = np.maximum(height, width) / np.minimum(height, width)
    assert 1.4 <= aspect.min() and aspect.max() <= 1.8
    assert 0.6 < (width > height).mean() < 0.9
    short = np.minimum(height, width)
    assert short.min() < 180 and short.max() > 256 and (short == 256).mean() < 0.1


@pytest.mark.parametrize("split", digits.SPLITS)
def test_the_other_digits_of_an_image_are_of_its_split_and_of_other_classes(
    split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, labels = digits.load_digits()
    seen = []
    monkeypatch.setattr(digits, "render", lambda pixels, others, seed: seen.append(others))
    digit = digits.split_digits(split)[3]
    digits.render_variant(digit, 0)
    expected = [member for member in digits.split_digits(split) if labels[member] != labels[digit]]
    assert np.array_equal(seen[0], images[expected])


def test_rendering_leaves_the_global_random_state_alone() -> None:
    before = np.random.get_state()[1].copy()
    digits.render_variant(3, 0)
    assert np.array_equal(np.random.get_state()[1], before)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), fill=st.integers(0, 16))
def test_any_seed_gives_an_image_without_numeric_overflow(seed: int, fill: int) -> None:
    pixels = np.full((1, 8, 8), fill, dtype=np.uint8)
    with np.errstate(all="raise"):
        image = digits.render(pixels[0], pixels, seed)
    assert image.ndim == 3 and image.shape[2] == 3 and image.dtype == np.uint8 and image.flags.c_contiguous


@pytest.mark.parametrize("seed", range(5))
def test_the_digit_in_the_middle_is_warm(seed: int) -> None:
    solid, nothing = np.full((8, 8), 16, dtype=np.uint8), np.zeros((1, 8, 8), dtype=np.uint8)
    image = digits.render(solid, nothing, seed).astype(int)
    middle = image[tuple(slice(size // 2 - 16, size // 2 + 16) for size in image.shape[:2])]
    red, _, blue = np.median(middle, axis=(0, 1))
    assert red > blue + 90


def test_neighbours_are_warm_and_lie_in_the_margins_that_a_centre_crop_cuts_off() -> None:
    """Rendered with blots for the other digits, and without; the decoy may lie in the crop."""
    nothing = np.zeros((1, 8, 8), dtype=np.uint8)
    blot = nothing.copy()
    blot[:, 2:6, 2:6] = 16
    crop, margin = [], []
    for seed in range(20):
        added = digits.render(nothing[0], blot, seed).astype(int) - digits.render(nothing[0], nothing, seed)
        redder = (added[..., 0] - added[..., 2] > 60).astype(float)
        along = int(np.argmax(redder.shape))
        short, long = sorted(redder.shape)
        position = np.abs(np.arange(long) - long // 2) / short * 256
        profile = redder.mean(1 - along)
        crop.append(profile[position < 80].mean())
        margin.append(profile[position > 130].mean())
    assert max(crop) == 0 and min(margin) > 0.1


@pytest.mark.parametrize("digit", [0, 5, 11])
def test_bilinear_sampling_agrees_with_scipy(digit: int) -> None:
    table = np.pad(digits.load_digits()[0][digit], (1, 2)).astype(np.int16)
    u, v = np.random.RandomState(0).randint(0, 10 * 65536, (2, 500)).astype(np.int32)
    expected = map_coordinates(table.astype(float), [v / 65536, u / 65536], order=1)
    assert np.abs(digits._sample(table, u, v) / 1024 - expected).max() <= 16 * 2 / 32  # weights are cut to 1/32


def test_blending_agrees_with_floating_point() -> None:
    rng = np.random.RandomState(1)
    image = rng.randint(0, 256, (3, 64, 64)).astype(np.int16)
    alpha = rng.randint(0, 129, (64, 64)).astype(np.int16)
    colour = np.array([255, 0, 77])
    expected = image + (colour[:, None, None] - image) * (alpha / 128.0)
    digits._blend(image, alpha, colour)
    assert np.abs(image - expected).max() < 1


def test_the_digit_covers_about_the_share_of_its_box_that_its_ink_says() -> None:
    images, _ = digits.load_digits()
    axis = np.arange(-96, 96, dtype=np.int32)
    coverage = [digits._digit_alpha(np.random.RandomState(i), images[i], 128, axis, axis) for i in range(40)]
    share = np.array([alpha.sum() / 128 / 128**2 for alpha in coverage])
    ink = images[:40].mean((1, 2)) / 16
    assert np.corrcoef(share, ink)[0, 1] > 0.5 and 0.7 < share.mean() / ink.mean() < 1.3


def test_noise_has_no_bias() -> None:
    image = np.full((3, 200, 300), 128, dtype=np.int16)
    digits._add_noise(np.random.RandomState(0), image)
    assert abs(image.mean() - 128) < 1 and image.std() > 2
