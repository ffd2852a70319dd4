"""The renderer: the same pixels everywhere, from digits that are scikit-learn's, in splits that share none."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import map_coordinates
from sklearn.datasets import load_digits

from helpers import digits

SAMPLE_SHA256 = {  # of eight images spread over each split, raw pixels in order
    "train": "b478674361ac77a6fc687f3c625afc70c5ba675802dbb0dc622dc6c17181305f",
    "calibration": "b13f7f45c292b88fba848a8fbaaf6ee3a4c9f0940605746b2d24849c2d284102",
    "validation": "7df5aaa2d3c1846c25db29e4ee5d30bdc77b40c3aa5ff3ebe7b4f2ac4df2b416",
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
    assert hashlib.sha256(sample.tobytes()).hexdigest() == SAMPLE_SHA256[split]


def test_an_image_without_clutter_has_the_recorded_checksum() -> None:
    image = digits.render_variant(0, 0, clutter=False)
    assert hashlib.sha256(image).hexdigest() == "0f32d9899ff1ed6d930a3212fa41e52915060d7147dcee2e418c6fa031fe40ae"


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
    assert (first != second).mean() > 0.5
    assert np.array_equal(first, digits.render_variant(7, 0))


def test_rendering_leaves_the_global_random_state_alone() -> None:
    before = np.random.get_state()[1].copy()
    digits.render_variant(3, 0)
    assert np.array_equal(np.random.get_state()[1], before)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), fill=st.integers(0, 16))
def test_any_seed_gives_an_image_without_numeric_overflow(seed: int, fill: int) -> None:
    with np.errstate(all="raise"):
        image = digits.render(np.full((8, 8), fill, dtype=np.uint8), seed)
    assert image.shape == (256, 256, 3) and image.dtype == np.uint8 and image.flags.c_contiguous


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


def test_the_digit_covers_about_the_share_of_the_image_that_its_ink_says() -> None:
    images, _ = digits.load_digits()
    coverage = [digits._digit_alpha(np.random.RandomState(i), images[i]).mean() / 128 for i in range(40)]
    assert 0.03 < min(coverage) and max(coverage) < 0.45


def test_noise_has_no_bias() -> None:
    image = np.full((3, 256, 256), 128, dtype=np.int16)
    digits._add_noise(np.random.RandomState(0), image)
    assert abs(image.mean() - 128) < 1 and image.std() > 2
