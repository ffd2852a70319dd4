"""One set of results: which engine on which device, which model and data, the measurements, and what is missing."""

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from trtlab.report.table import (
    KEY,
    MEASURED,
    SCORES,
    baseline_of,
    measured_rows,
    plain,
    pretty,
    scored_rows,
    tidy,
)

NOT_NAMED = "not named"
"""The model or data of measurements that do not name theirs."""
_WORDS = ["precision", "ran_in", "device", "elsewhere", "machine"]
BUILD = ("precision", "profile", "layers", "layer_precisions", "calibration", "seconds")
"""How an engine was built, in the words of a table."""
_TIMES_AND_RATES = ("_ms", "_per_s")


@dataclass(frozen=True)
class Results:
    """What was measured.

    `found` and `scored` are rows as the files have them, a row for each engine and batch, and one for each accuracy.
    A check has `engine`, `what`, `passed`, `value`, `limit`, `message`; a layer those of profile.json; a build how the
    engine was built, in the words of a table. All of these may say their `source`.
    `measured` is the date, or the first and the last; `versions` those of everything that took part.
    """

    engine: dict[str, str]
    model: str
    data: str
    found: list[dict[str, Any]]
    scored: list[dict[str, Any]] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    layers: list[dict[str, Any]] = field(default_factory=list)
    builds: list[dict[str, Any]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    measured: str | None = None

    @functools.cached_property
    def rows(self) -> pd.DataFrame:
        """A row for each engine and batch, with its accuracy, in the order of charts (`table.measured_rows`)."""
        scores = {_key(row): {key: row.get(key) for key in ("top1", "top5")} for row in self.scored}
        return measured_rows({**row, **scores.get(_key(row), {})} for row in self.found)

    @functools.cached_property
    def accuracy(self) -> pd.DataFrame:
        """A row for each engine's accuracy, in the order of charts."""
        return scored_rows(self.scored, self.rows)

    @functools.cached_property
    def table(self) -> pd.DataFrame:
        """The tidy table: a row for each figure."""
        return tidy(self.rows, self.accuracy, self.device)

    @property
    def device(self) -> str:
        """The string that every table and chart shows."""
        return self.engine["device"]

    @property
    def engines(self) -> pd.DataFrame:
        """The first row of each engine."""
        return self.rows.drop_duplicates(KEY)

    @property
    def batches(self) -> list[int]:
        """Measured batch sizes, ascending."""
        return sorted(set(self.rows.batch))

    @property
    def machines(self) -> dict[str, str]:
        """The machines beside the first one: the words that name each as a source, and its device."""
        others = self.engines[self.engines.machine.notna()]
        return dict(zip(others.source, others.machine, strict=True))

    @property
    def where(self) -> str:
        """The device of the results, and which rows ran on another machine."""
        return "; ".join([self.device, *(f"{words}: {where}" for words, where in self.machines.items())])

    @property
    def baseline(self) -> str:
        """The engine that speed-ups and losses are against: the first source's."""
        return baseline_of(row["engine"] for row in [*self.found, *self.scored] if not row.get("source"))

    @property
    def subject(self) -> str:
        """Model and data, as far as they are named."""
        named = [text for text in (self.model, self.data) if text != NOT_NAMED]
        return " on ".join(named) or "Engines"

    @property
    def heading(self) -> str:
        """The report's heading."""
        baseline = self.rows.empty or (self.rows.engine == baseline_of([])).any()
        return f"{self.subject}: {'from PyTorch to optimised engines' if baseline else 'as measured'}"

    @property
    def contradictions(self) -> pd.DataFrame:
        """The rows whose throughput and latency cannot both be right."""
        return self.rows[self.rows.apart.notna()]

    def by_machine(self) -> list["Results"]:
        """Return the results of each machine alone: the first one's, without what ran beside it, then the others'."""
        alone = [row for row in self.found if not row.get("elsewhere")]
        here = [row for row in alone if not row.get("machine")]
        scored = [row for row in self.scored if row.get("source") not in self.machines]
        parts = [dataclasses.replace(self, found=here, scored=scored)]
        for source, device in self.machines.items():
            found = [{**row, "source": "", "machine": None} for row in alone if row.get("source") == source]
            engine = {**self.engine, "device": device}
            parts.append(dataclasses.replace(self, engine=engine, found=found, scored=[]))
        return parts

    def title(self, engine: str, source: str | None = "", how: str | None = "") -> str:
        """Return an engine as it is printed, with what would not be expected of it: "FP16 (BF16 ran)"."""
        same = self.engines[(self.engines[KEY] == [source or "", engine, how or ""]).all(axis=1)]
        return same.title.iloc[0] if len(same) else pretty(engine) + (f" · {source}" if source else "")

    def lines(self, figure: str, *, home: bool = False) -> pd.DataFrame:
        """Return the lines of one figure; without times and rates that contradict each other.

        `home` leaves out what ran elsewhere, or on another machine.
        """
        lines = self.table[self.table.figure == figure]
        lines = lines[lines.apart.isna()] if figure.endswith(_TIMES_AND_RATES) else lines
        return lines[lines.elsewhere.isna() & lines.machine.isna()] if home else lines


def _key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row.get("source") or "", row["engine"], row.get("how") or ""


def summary(results: Results, files: dict[str, str]) -> dict[str, Any]:
    """Return the content of summary.json; `files` maps a file's role to its path inside the results folder."""
    of = ["source", "name", "how"]
    rows, scores = (frame.rename(columns={"engine": "name"}) for frame in (results.rows, results.accuracy))
    return {
        "engine": results.engine,
        "model": results.model,
        "data": results.data,
        "measured": results.measured,
        "versions": results.versions,
        "rows": plain(rows[[*of, "batch", *_WORDS, *MEASURED, "top1", "top5", "speedup"]]),
        "accuracy": plain(scores[["source", "name", *SCORES]]),
        "checks": [_named(check, "what", "passed", "value", "limit", "message") for check in results.checks],
        "builds": [_named(build, *BUILD) for build in results.builds],
        "settings": results.settings,
        "not_measured": results.missing,
        "contradictions": plain(rows[rows.apart.notna()][[*of, "batch", "apart"]]),
        "files": files,
    }


def _named(record: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return a record as the files have it, where an engine is called `name`."""
    return {"source": record.get("source", ""), "name": record["engine"], **{key: record.get(key) for key in keys}}
