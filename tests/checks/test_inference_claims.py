"""Do the points of step 5 tell right outputs from wrong ones, and count what is left behind?"""

import numpy as np
import pytest

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s05_inference.alive import counted
from helpers.checks.points.s05_inference.engines import Small, fixed, judge, row_errors, usual, wide
from helpers.checks.points.s05_inference.probes import FORMS, images_of
from helpers.checks.probes.images import varied_images
from helpers.engine.backend import cuda, trt
from helpers.toys.networks import tiny_onnx
from solutions.checks.core.claim import claims_of

CALL = {"seed": 12, "number": 8}


def test_step_five_is_worth_ten_points() -> None:
    assert sum(claim.points for claim in claims_of("inference_class")) == 10


@pytest.mark.parametrize("seed", range(8))
def test_two_images_never_have_nearly_the_same_outputs(seed: int) -> None:
    small = Small(b"", tiny_onnx(seed), (3, 224, 224))
    outputs = small.expected(varied_images(seed, 8))
    for shift in range(1, 8):
        assert row_errors(np.roll(outputs, shift, axis=0), outputs).max() > 0.1


def test_two_exchanged_images_are_seen_and_nothing_else_of_the_batch_differs() -> None:
    small = Small(b"", tiny_onnx(1), (3, 224, 224))
    images, exchanged = (images_of(CALL | {"exchanged": how}, small.image) for how in (False, True))
    assert np.array_equal(np.delete(images, (2, 3), 0), np.delete(exchanged, (2, 3), 0))
    with pytest.raises(Missed, match="2 of 8 rows are others, the first is row 2"):
        judge(small.expected(images), small, CALL | {"exchanged": True}, "a batch")


def test_the_three_engines_take_what_their_points_say() -> None:
    for make, batches, image in ((usual, (1, 32), (3, 224, 224)), (wide, (2, 32), (1, 40, 56)), (fixed, None, None)):
        small = make(Case(None, 3))
        engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(small.plan)
        name = engine.get_tensor_name(0)
        least, _, most = engine.get_tensor_profile_shape(name, 0)
        assert tuple(least[1:]) == small.image == (image or small.image)
        assert (least[0], most[0]) == (batches or (7, 7))


@pytest.mark.parametrize("form", FORMS)
def test_each_form_holds_the_same_images(form: str) -> None:
    images = varied_images(1, 4, (3, 5, 6))
    given = FORMS[form](images.copy())
    assert np.array_equal(given, images)
    assert form == "plain" or given.dtype != images.dtype or not (given.flags.c_contiguous and given.flags.writeable)


def test_what_is_freed_or_forgotten_no_longer_counts() -> None:
    with counted() as alive:
        buffers = [cuda.mem_alloc(64) for _ in range(3)]
        assert alive()["device"] == 3
        buffers[0].free()
        assert alive()["device"] == 2
        del buffers[1:]
        assert alive()["device"] == 0


def test_a_page_locked_array_counts_as_long_as_a_view_of_it() -> None:
    with counted() as alive:
        view = cuda.pagelocked_zeros((4, 4), np.float32)[:1]
        assert alive()["host"] == 1
        del view
        assert alive()["host"] == 0


def test_engines_and_contexts_count_until_nobody_has_them() -> None:
    plan = usual(Case(None, 3)).plan
    with counted() as alive:
        engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)
        context = engine.create_execution_context()
        assert (alive()["engines"], alive()["contexts"]) == (1, 1)
        del context
        assert (alive()["engines"], alive()["contexts"], alive()["contexts_made"]) == (1, 0, 1)
        del engine
        assert alive()["engines"] == 0


def test_streams_and_events_count_until_nobody_has_them() -> None:
    with counted() as alive:
        kept = [cuda.Stream(), cuda.Event()]
        assert alive()["streams"] == 2
        del kept
        assert alive()["streams"] == 0


def test_python_bytes_are_those_of_arrays_that_are_kept() -> None:
    with counted() as alive:
        before = alive()["python"]
        kept = np.ones(1 << 20, np.uint8)
        assert alive()["python"] - before == pytest.approx(kept.nbytes, rel=0.05)


def test_everything_is_put_back() -> None:
    names = [(cuda, "mem_alloc"), (cuda.DeviceAllocation, "free"), (trt.Runtime, "deserialize_cuda_engine")]
    before = [getattr(owner, name) for owner, name in names]
    with counted():
        assert all(getattr(owner, name) is not found for (owner, name), found in zip(names, before, strict=True))
    assert [getattr(owner, name) for owner, name in names] == before
