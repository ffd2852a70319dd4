"""Profiles in trtexec's spelling: what is read, what is completed, and what contradicts the network."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trtcpu.errors import InputError
from trtlab.engines.shapes import complete_ranges, merge_shapes, parse_shapes

INPUTS = {"image": (-1, 3, -1, -1), "facts": (-1, 5)}
IMAGE = ((1, 3, 32, 32), (2, 3, 48, 48), (4, 3, 64, 64))


@pytest.mark.parametrize(
    "texts",
    [
        ["image:1x3x32x32:2x3x48x48:4x3x64x64", "facts:1x5"],
        ["image:1x3x32x32:2x3x48x48:4x3x64x64,facts:1x5"],
        ["'image':1x3x32x32:2x3x48x48:4x3x64x64", '"facts":1x5'],
    ],
)
def test_shapes_are_read_from_several_texts_or_from_one_with_commas(texts: list[str]) -> None:
    assert parse_shapes(texts, "--shapes", list(INPUTS)) == {"image": list(IMAGE), "facts": [(1, 5)]}


def test_a_name_with_a_colon_is_told_from_a_size() -> None:
    assert parse_shapes(["input:0:1x3:2x3:4x3"], "--shapes", ["input:0"]) == {"input:0": [(1, 3), (2, 3), (4, 3)]}


def test_three_options_and_one_mean_the_same() -> None:
    names = list(INPUTS)
    one = merge_shapes(["image:1x3x32x32:2x3x48x48:4x3x64x64"], [], [], [], names)
    three = merge_shapes([], ["image:1x3x32x32"], ["image:2x3x48x48"], ["image:4x3x64x64"], names)
    assert one == three == {"image": IMAGE}


def test_one_shape_is_all_three_and_a_missing_optimum_is_the_maximum() -> None:
    assert merge_shapes(["facts:2x5"], [], [], [], ["facts"]) == {"facts": ((2, 5), (2, 5), (2, 5))}
    assert merge_shapes([], ["facts:1x5"], [], ["facts:4x5"], ["facts"]) == {"facts": ((1, 5), (4, 5), (4, 5))}


def test_an_input_of_which_only_the_batch_is_dynamic_takes_the_batches() -> None:
    assert complete_ranges(INPUTS, {"image": IMAGE}, (1, 2, 4), {})["facts"] == ((1, 5), (2, 5), (4, 5))
    assert complete_ranges({"fixed": (3, 7)}, {}, (1, 2, 4), {}) == {"fixed": ((3, 7), (3, 7), (3, 7))}


def test_a_dynamic_axis_without_sizes_is_named() -> None:
    axes = {"image": ["batch", 3, "height", "width"]}
    with pytest.raises(InputError, match=r"image is dynamic in batch, height, width.*--shapes image:MIN:OPT:MAX"):
        complete_ranges(INPUTS, {}, (1, 8, 32), axes)


@pytest.mark.parametrize(
    "texts, said",
    [
        (["image"], "'image' is no shape"),
        (["image:1xx3"], "no shape; write it as trtexec does"),
        (["picture:1x3x32x32"], "'picture', which is no input; the model has image, facts"),
        (["image:1x3x32x32:2x3x32x32"], "image has 2 shapes; give one, or min:opt:max"),
        (["image:1x3x32"], "has 3 axes, the model's has 4"),
        (["image:1x1x32x32"], "axis 1 of image is 3 in the model, 1 in 1x1x32x32"),
        (["image:0x3x32x32"], "1 <= min <= opt <= max"),
        (["image:4x3x32x32:2x3x32x32:8x3x32x32"], "1 <= min <= opt <= max"),
        (["image:1x3x32x32:1x3x32x32:1000000x3x999x999"], "has more than 2,147,483,647 elements"),
    ],
)
def test_shapes_that_do_not_fit_are_one_line(texts: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        complete_ranges(INPUTS, merge_shapes(texts, [], [], [], list(INPUTS)), (1, 8, 32), {})
    assert "\n" not in str(caught.value)


PIECES = st.lists(
    st.sampled_from([*"x:,=- ²٣é'", "image", "facts", "0", "1x5", "4x3x64x64", "9" * 30, "9" * 5000]), max_size=9
)


@settings(max_examples=300)
@given(st.lists(PIECES.map("".join) | st.text(max_size=40), max_size=2))
def test_any_text_is_a_profile_within_the_network_or_one_line(texts: list[str]) -> None:
    network = {"image": (-1, 3, 64, 64), "facts": (-1, 5)}
    try:
        asked = merge_shapes(texts, [], [], [], list(network))
        ranges = complete_ranges(network, asked, (1, 2, 4), {})
    except InputError:
        return
    for name, (least, best, most) in ranges.items():
        assert all(1 <= a <= b <= c for a, b, c in zip(least, best, most, strict=True))
        assert least[1:] == most[1:] == network[name][1:]
