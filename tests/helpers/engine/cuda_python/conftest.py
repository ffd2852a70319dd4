"""The GPU that these tests have: a driver that is a stand-in."""

from tests.fake_cuda import gpu  # noqa: F401 - a fixture
