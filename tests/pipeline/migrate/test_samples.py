"""Public kinds of code for TensorRT 7, 8 and 10: what is found in them, and that what is rewritten runs."""

from collections import Counter
from pathlib import Path

import pytest

from solutions.pipeline.migrate.migration import migrate
from tests.pipeline.migrate.conftest import SAMPLES, expected


def found(path: Path, to: int) -> Counter[tuple[int, str, bool]]:
    return Counter((row.place.line, row.finding.name, row.rewritten) for row in migrate(path, to).rows)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_gone_name_of_a_sample_is_found_in_its_line(path: Path) -> None:
    assert found(path, 11) == expected(path, 11)
