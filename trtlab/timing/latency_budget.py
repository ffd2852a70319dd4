"""Where an end-to-end latency goes, and what bounds the throughput when the stages overlap."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.tools.files import read_json
from trtcpu.errors import InputError

STAGES = ("pre", "h2d", "infer", "d2h", "post")
_BITS = 8
_MOST_MS = 1e9  # eleven days; far larger figures are typed by mistake, and their sums overflow


@dataclass(frozen=True)
class LatencyBudget:
    """Milliseconds a batch in each stage: preprocessing, upload, inference, download, postprocessing.

    `link_mbps` is a link's rate in megabits per second (10^6 bit/s, as links are sold), and `transfer_bytes` the bytes
    that a batch moves over it; given together they add the bound that the link sets.
    """

    pre_ms: float
    h2d_ms: float
    infer_ms: float
    d2h_ms: float
    post_ms: float
    transfer_bytes: int | None = None
    link_mbps: float | None = None

    def __post_init__(self) -> None:
        """Raise InputError for times or rates that cannot be."""
        for name, value in zip(STAGES, self._times(), strict=True):
            if not 0 <= value <= _MOST_MS:
                raise InputError(f"--{name}-ms must be 0 to {_MOST_MS:g} milliseconds, not {value}")
        if self.total_ms <= 0:
            raise InputError("all stages take 0 ms, so there is no budget to split; give at least one of the times")
        if (self.transfer_bytes is None) != (self.link_mbps is None):
            raise InputError("--transfer-bytes and --link-mbps go together; give both or none")
        if self.transfer_bytes is not None and self.transfer_bytes <= 0:
            raise InputError(f"--transfer-bytes must be 1 or more, not {self.transfer_bytes}")
        if self.link_mbps is not None and not (math.isfinite(self.link_mbps) and self.link_mbps > 0):
            raise InputError(f"--link-mbps must be more than 0 megabits per second, not {self.link_mbps}")

    @classmethod
    def of_measurement(cls, path: str | Path, instead: Mapping[str, float], **link: Any) -> "LatencyBudget":
        """Return the budget of what `trtlab bench --end-to-end` measured; decode and resize are `pre`, top-k is `post`.

        `instead` has times of stages in milliseconds that take the place of the measured ones.

        Raises:
            InputError: the file is not such a measurement, or its figures cannot be.
        """
        found = read_json(path, "measurement")
        try:
            measured = {name: float(ms) for name, ms in found["median_ms"].items()}
            times = {name: measured[name] for name in ("h2d", "infer", "d2h")}
            times |= {"pre": measured["decode"] + measured["resize"], "post": measured["top-k"], **instead}
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise InputError(
                f"{path} has no times of the stages; write one with trtlab bench --end-to-end … --output FILE"
            ) from error
        return cls(*(times[name] for name in STAGES), **link)

    def _times(self) -> tuple[float, ...]:
        return self.pre_ms, self.h2d_ms, self.infer_ms, self.d2h_ms, self.post_ms

    @property
    def times_ms(self) -> dict[str, float]:
        """Milliseconds by stage."""
        return dict(zip(STAGES, self._times(), strict=True))

    @property
    def total_ms(self) -> float:
        """The latency when the stages run one after another."""
        return math.fsum(self._times())

    @property
    def shares(self) -> dict[str, float]:
        """Each stage's share of the sequential latency, in percent."""
        return {name: 100 * value / self.total_ms for name, value in self.times_ms.items()}

    @property
    def bottleneck(self) -> str:
        """The stage that takes longest."""
        return max(self.times_ms, key=self.times_ms.__getitem__)

    @property
    def sequential_per_s(self) -> float:
        """Batches per second when the next one starts after the last has ended."""
        return 1e3 / self.total_ms

    @property
    def pipelined_per_s(self) -> float:
        """Batches per second, at most, when all stages work at once on different batches: the slowest stage decides."""
        return 1e3 / self.times_ms[self.bottleneck]

    @property
    def link_ms(self) -> float | None:
        """Milliseconds that a batch's bytes take on the link."""
        if self.transfer_bytes is None or self.link_mbps is None:
            return None
        return self.transfer_bytes * _BITS / (self.link_mbps * 1e6) * 1e3

    @property
    def bound_per_s(self) -> float:
        """Batches per second, at most, with the link counted in."""
        return min(self.pipelined_per_s, 1e3 / self.link_ms) if self.link_ms else self.pipelined_per_s

    @property
    def bound_by(self) -> str:
        """What sets `bound_per_s`: a stage, or the link."""
        return "link" if self.link_ms and self.link_ms > self.times_ms[self.bottleneck] else self.bottleneck

    def advice(self) -> list[str]:
        """Say in two or three sentences what the figures mean."""
        return [
            f"One batch after another takes {self.total_ms:.3g} ms, which is {self.sequential_per_s:.4g} batches/s.",
            f"{self.bottleneck} takes {self.shares[self.bottleneck]:.0f} % of it; with all stages overlapped it alone "
            f"bounds the rate: at most {self.pipelined_per_s:.4g} batches/s.",
            *([self._link_advice(self.link_ms)] if self.link_ms is not None else []),
        ]

    def _link_advice(self, link_ms: float) -> str:
        carried = (
            f"The link needs {link_ms:.3g} ms for {self.transfer_bytes:,} bytes at {self.link_mbps:g} megabit/s: "
            f"at most {1e3 / link_ms:.4g} batches/s"
        )
        if self.bound_by == "link":
            return f"{carried}. It is the bound, whatever the engine does."
        return f"{carried}, more than {self.bound_by} allows; the link is not the bound."

    def summary(self) -> dict[str, Any]:
        """Return every figure under a name with its unit."""
        return {
            "times_ms": self.times_ms,
            "shares_percent": self.shares,
            "bottleneck": self.bottleneck,
            "sequential_ms": self.total_ms,
            "sequential_per_s": self.sequential_per_s,
            "pipelined_per_s": self.pipelined_per_s,
            "link_ms": self.link_ms,
            "bound_per_s": self.bound_per_s,
            "bound_by": self.bound_by,
        }
