"""The inputs that `--input` describes, and the sizes at which an export is compared with PyTorch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trtcpu.errors import InputError
from trtlab.models.model_inputs import DTYPES, ModelInput, image_input, parse_inputs, sizes_to_try

IDS = "ids:batch,length:int64"


def test_an_axis_is_a_size_or_a_name_with_the_size_to_trace_with() -> None:
    image, ids, fixed = parse_inputs(["image:batch,3,height=48,width", IDS, "x:1x3x224x224"], batch=2, size=224)
    assert (image.axes, image.dtype) == (("batch", 3, "height", "width"), torch.float32)
    assert image.traced == {"batch": 2, "height": 48, "width": 224}
    assert (ids.axes, ids.dtype, ids.traced) == (("batch", "length"), torch.int64, {"batch": 2, "length": 16})
    assert ids.dynamic() == {0: "batch", 1: "length"}
    assert (fixed.axes, fixed.traced) == ((1, 3, 224, 224), {})


def test_every_batch_and_every_other_dynamic_axis_is_tried() -> None:
    sizes = sizes_to_try(parse_inputs([IDS], batch=1, size=224))
    assert [(each["batch"], each["length"]) for each in sizes] == [(1, 16), (2, 16), (5, 16), (1, 32)]
    assert sizes_to_try([image_input("input", 3, False, 3, 8)]) == [{}]


def test_integers_stay_below_the_rows_of_their_table() -> None:
    values = parse_inputs(["ids:4,1000:int64"], 1, 224)[0].values({}, limit=7, seed=0)
    assert values.dtype == torch.int64 and set(values.unique().tolist()) == set(range(7))


@pytest.mark.parametrize(
    "texts, said",
    [
        (["image"], "'image' is not name:shape:dtype"),
        (["image:"], "is not name:shape:dtype"),
        (["image:batch,3:float64"], "'image:batch,3:float64' is not .*, the type one of float32"),
        (["image:batch,-3"], "an axis is a size from 1 on or a name"),
        (["image:0,3"], "image cannot be 0x3; sizes are 1 or more"),
        (["image:batch,3,height=0"], "image cannot be 1x3x0; sizes are 1 or more"),
        (["image:100000,100000"], "image cannot be 100000x100000; .*2,147,483,647 elements at most"),
        (["image:" + "9" * 5000], "an axis is a size from 1 on or a name"),
        (["a:1,2", "a:1,2"], "names a, a; give every input its own name"),
    ],
)
def test_a_wrong_input_is_one_line(texts: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_inputs(texts, 1, 224)


PIECES = st.lists(
    st.sampled_from([*"x:,=- ²٣é'", "image", "batch", "0", "17", "9" * 30, "9" * 5000, *DTYPES]), max_size=9
)


@settings(max_examples=300)
@given(PIECES.map("".join) | st.text(max_size=40))
def test_any_text_is_an_input_or_one_line(text: str) -> None:
    try:
        (found,) = parse_inputs([text], 1, 224)
    except InputError as error:
        assert "\n" not in str(error).replace(text, "")
    else:
        assert isinstance(found, ModelInput) and min(found.shape(found.traced), default=1) >= 1
        assert text.startswith(f"{found.name}:")
