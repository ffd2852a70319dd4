"""What holds in every test."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from helpers.course import artifacts
from solutions.checks.core import seed
from tests.fuzz import ASKED

# The same cases each time, whatever else the machine does; tests/fuzz tries other ones where it is asked for many.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--fuzz-cases`, which `make fuzz` gives."""
    parser.addoption("--fuzz-cases", type=int, help="how many new cases of each kind tests/fuzz tries")


def pytest_configure(config: pytest.Config) -> None:
    """Say how many cases are asked for before tests/fuzz is imported."""
    if asked := config.getoption("--fuzz-cases"):
        ASKED.append(asked)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """After a test the steps' files and the seeds are where they were."""
    kept = [(place, list(place)) for place in (artifacts._chosen, seed._chosen)]
    yield
    for place, before in kept:
        place[:] = before
