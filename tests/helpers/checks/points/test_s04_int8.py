"""Step 4: the part of TensorRT that a probe plays."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers.checks.points.s04_int8.calibrator import Run, all_batches
from helpers.engine.backend import cuda
from helpers.toys.networks import EDGE


def _played(*batches: Any) -> Run:
    """Return what came of a calibrator whose get_batch gives `batches` one after the other."""
    given = iter(batches)
    return all_batches(SimpleNamespace(get_batch_size=lambda: 2, get_batch=lambda names: next(given, None)), 2, 4)


def test_each_batch_is_read_where_it_lies_until_none_comes() -> None:
    host = np.random.default_rng(0).random((2, 3, EDGE, EDGE), dtype=np.float32)
    memory = cuda.to_device(host)
    run = _played([int(memory)], [memory])
    assert run["ended"] and run["size"] == 2 and np.array_equal(run["batches"], [host, host])
    assert not _played(*[[memory]] * 9)["ended"]


@pytest.mark.parametrize("given", [7, ["address"], [1]])
def test_what_tensorrt_cannot_use_is_a_batch_of_zeros(given: Any) -> None:
    run = _played(given)
    assert run["ended"] and not np.any(run["batches"])
