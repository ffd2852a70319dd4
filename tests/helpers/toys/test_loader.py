"""The loader with a bar gives what PyTorch's gives."""

import pytest
import torch
from torch.utils import data

from helpers.toys.loader import DataLoader

IMAGES = torch.arange(10.0)


def test_its_batches_are_those_of_pytorch_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = DataLoader(IMAGES, batch_size=4), data.DataLoader(IMAGES, batch_size=4)
    for _ in range(2):
        assert [batch.tolist() for batch in ours] == [batch.tolist() for batch in theirs]
    assert (ours.batch_size, len(ours), ours.dataset is IMAGES) == (4, 3, True)
    shown = capsys.readouterr()
    assert "images read" in shown.out and shown.err == "", "nbgrader gives no points where stderr is written to"


def test_a_bar_appears_only_when_a_batch_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    batches = iter(DataLoader(IMAGES, batch_size=4))
    assert capsys.readouterr().out == ""
    assert next(batches).tolist() == [0, 1, 2, 3] and "0/3" in capsys.readouterr().out
