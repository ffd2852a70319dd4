"""Does the visible check of step 7 pass a right loop, and name what a wrong one does?"""

import numpy as np
import pytest

from helpers.feedback import check_accuracy
from helpers.feedback.checklist import NotYet


def _right(model, val_loader, num_samples=1000):
    ranks = []
    for images, labels in val_loader:
        order = np.argsort(-np.asarray(model(images.numpy())), axis=1, kind="stable")
        ranks += np.argmax(order == labels.numpy()[:, None], axis=1).tolist()
    ranks = np.array(ranks[:num_samples])
    return 100 * np.mean(ranks < 1), 100 * np.mean(ranks < 5)


def test_a_right_loop_passes(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))
    check_accuracy(_right)
    assert "✗" not in capsys.readouterr().out


def test_fractions_are_named(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setenv("TRT_LAB_ARTIFACTS", str(tmp_path))
    with pytest.raises(NotYet):
        check_accuracy(lambda *args: tuple(rate / 100 for rate in _right(*args)))
    assert "(100, 100)" in capsys.readouterr().out
