"""Kernel timings that builds share: what one build timed, the next one looks up.

with offered_timings(trt, b"") as offered:          # bytes of an earlier `offered.filled()`, or none
    build_engine_fp16(onnx_path, engine_path)
timings = offered.filled()
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from trtcpu.errors import SettingError


class Offered:
    """The builder configurations that were made while timings were offered."""

    def __init__(self) -> None:
        self.configurations: list[Any] = []

    def filled(self) -> bytes:
        """Return the serialized timing cache of the newest configuration, with what its build added."""
        return bytes(self.configurations[-1].get_timing_cache().serialize())


def read_timings(path: str | Path, variable: str) -> bytes:
    """Return the bytes of an earlier `filled()`, from the file that an environment variable names.

    Raises:
        SettingError: it cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise SettingError(f"cannot read the timings {path} that {variable} names: {reason}; unset it") from error


@contextmanager
def offered_timings(trt: ModuleType, timings: bytes) -> Iterator[Offered]:
    """Give every builder configuration made in the block a timing cache of these bytes; its own replaces it."""
    create, offered = trt.Builder.create_builder_config, Offered()

    def create_builder_config(builder: Any) -> Any:
        config = create(builder)
        config.set_timing_cache(config.create_timing_cache(timings), ignore_mismatch=False)
        offered.configurations.append(config)
        return config

    trt.Builder.create_builder_config = create_builder_config
    try:
        yield offered
    finally:
        trt.Builder.create_builder_config = create
