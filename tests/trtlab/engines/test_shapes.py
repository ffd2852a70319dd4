"""Profiles in trtexec's spelling: what is read, what is completed, and what contradicts the network."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trtcpu.errors import InputError
from trtlab.engines.shapes import chosen_inputs, complete_ranges, merge_shapes
from trtlab.engines.tensors import InputSpec

INPUTS = {"image": (-1, 3, -1, -1), "facts": (-1, 5), "input:0": (-1, 3)}
IMAGE = ((1, 3, 32, 32), (2, 3, 48, 48), (4, 3, 64, 64))
IMAGE_TEXT = "image:1x3x32x32:2x3x48x48:4x3x64x64"
FACTS = ((2, 5), (2, 5), (2, 5))
PROFILE = {
    "image": ((1, 3, 16, 16), (2, 3, 32, 32), (4, 3, 48, 40)),
    "facts": ((1, 5), (2, 5), (4, 5)),
    "table": ((7, 5), (7, 5), (7, 5)),
}
ENGINE = {name: InputSpec(name, np.dtype("float32"), *shapes) for name, shapes in PROFILE.items()}


@pytest.mark.parametrize(
    "options, expected",
    [
        (([IMAGE_TEXT, "facts:2x5"], [], [], []), {"image": IMAGE, "facts": FACTS}),
        (([f"{IMAGE_TEXT},facts:2x5"], [], [], []), {"image": IMAGE, "facts": FACTS}),
        ((["'facts':2x5"], [], [], []), {"facts": FACTS}),
        ((['"input:0":1x3:2x3:4x3'], [], [], []), {"input:0": ((1, 3), (2, 3), (4, 3))}),
        (([], ["image:1x3x32x32"], ["image:2x3x48x48"], ["image:4x3x64x64"]), {"image": IMAGE}),
        (([], ["facts:1x5"], [], ["facts:4x5"]), {"facts": ((1, 5), (4, 5), (4, 5))}),
        (([], [], ["facts:2x5"], []), {"facts": FACTS}),
    ],
)
def test_shapes_are_read_from_one_option_or_from_three(options: tuple, expected: dict) -> None:
    assert merge_shapes(*options, list(INPUTS)) == expected


@pytest.mark.parametrize(
    "texts, said",
    [
        ([], r"image is dynamic in batch, height, width, .* --shapes image:MIN:OPT:MAX, .* image:32x3x32x32"),
        (["image"], "'image' is no shape"),
        (["image:1xx3"], "no shape; write it as trtexec does"),
        (["picture:1x3x32x32"], "'picture', which is no input; the model has image, facts"),
        (["image:1x3x32x32:2x3x32x32"], "image has 2 shapes; give one, or min:opt:max"),
        (["image:1x3x32"], r"image:1x3x32 does not fit the model, whose image is \[-1, 3, -1, -1\]"),
        (["image:1x1x32x32"], r"image:1x1x32x32 does not fit the model"),
        (["image:0x3x32x32"], "1 <= min <= opt <= max"),
        (["image:4x3x32x32:2x3x32x32:8x3x32x32"], "1 <= min <= opt <= max"),
        (["image:1x3x32x32:1x3x32x32:1000000x3x999x999"], "has more than 2,147,483,647 elements"),
    ],
)
def test_shapes_that_do_not_fit_are_one_line(texts: list[str], said: str) -> None:
    axes = {"image": ["batch", 3, "height", "width"]}
    with pytest.raises(InputError, match=said) as caught:
        complete_ranges(INPUTS, merge_shapes(texts, [], [], [], list(INPUTS)), (1, 8, 32), axes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "texts, expected",
    [
        ([], {name: shapes[1] for name, shapes in PROFILE.items()}),
        (["image:3x3x48x16"], {"image": (3, 3, 48, 16), "facts": (3, 5), "table": (7, 5)}),
    ],
)
def test_the_inputs_that_are_not_named_have_the_batch_of_those_that_are(texts: list[str], expected: dict) -> None:
    found = chosen_inputs(ENGINE, texts)
    assert {name: spec.best for name, spec in found.items()} == expected
    assert all((spec.least, spec.most) == (PROFILE[name][0], PROFILE[name][2]) for name, spec in found.items())


@pytest.mark.parametrize(
    "texts, said",
    [
        (
            ["image:3x3x49x16"],
            r"image:3x3x49x16 is outside the engine's profile: image float32 \[1–4, 3, 16–48, 16–40\]",
        ),
        (["image:3x3x48"], "outside the engine's profile"),
        (["image:1x3x16x16:2x3x16x16"], "image has 2 shapes; give one"),
        (["image:1x3x16x16", "facts:2x5"], "the batches 1 and 2; make them equal"),
        (["other:1x3"], "names 'other', which is no input; the model has image, facts, table"),
    ],
)
def test_a_shape_that_the_engine_does_not_take_is_one_line(texts: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        chosen_inputs(ENGINE, texts)


PIECES = st.lists(
    st.sampled_from([*"x:,=- ²٣é'", "image", "facts", "0", "1x5", "4x3x64x64", "9" * 30, "9" * 5000]), max_size=9
)


@settings(max_examples=300)
@given(st.lists(PIECES.map("".join) | st.text(max_size=40), max_size=2))
def test_any_text_is_a_profile_within_the_network_or_one_line(texts: list[str]) -> None:
    network = {"image": (-1, 3, 64, 64), "facts": (-1, 5)}
    try:
        ranges = complete_ranges(network, merge_shapes(texts, [], [], [], list(network)), (1, 2, 4), {})
    except InputError:
        return
    for name, (least, best, most) in ranges.items():
        assert all(1 <= a <= b <= c for a, b, c in zip(least, best, most, strict=True))
        assert least[1:] == most[1:] == network[name][1:]
