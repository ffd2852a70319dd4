"""Whether the tables of report.html give each number to its own name and batch.

Tables may have any form, so this looks for contradictions only: a row named FP16 that holds INT8's numbers, a column
headed 8 that holds those of batch 16.
"""

import re
from typing import Any

from helpers.feedback.report_numbers import among
from helpers.missed import Missed
from helpers.probes.quotes import numbers_in
from helpers.probes.series import named

__all__ = ["check_table"]

_KEYS = {"latency_ms": "median latency", "throughput": "throughput", "speedup": "speed-up"}
_SAME, _OTHER = 0.8, 0.5
_RELATIVE, _ROUNDING = 0.01, 0.06
_FEWEST = 3


def check_table(rows: list[list[str]], report: dict[str, Any]) -> None:
    """Raise Missed where a table of cells' texts has the report's numbers under another name or batch."""
    batches = list(report["throughput"]["int8"])
    across = [list(column) for column in zip(*rows, strict=False)] if len({len(row) for row in rows}) == 1 else []
    for table in (rows, across):
        heads = [_heads(row, batches) for row in table]
        head = next((found for found in heads if len(found) >= _FEWEST), None)
        for row in table:
            if head and len(row) > max(head):
                _check_row(row, head, report)


def _heads(row: list[str], batches: list[str]) -> dict[int, str]:
    """Return the batch by column where a row's cells are batches, such as 8 or "batch 8"."""
    found = {}
    for column, cell in enumerate(row):
        match = re.fullmatch(r"\W*(?:batch(?: size)?\W*)?(\d+)\W*", cell.strip(), re.IGNORECASE)
        if match and match[1] in batches:
            found[column] = match[1]
    return found if len(set(found.values())) == len(found) else {}


def _check_row(row: list[str], head: dict[int, str], report: dict[str, Any]) -> None:
    names = {name for column, cell in enumerate(row) if column not in head and (name := named(cell))}
    shown = {batch: numbers[0] for column, batch in head.items() if (numbers := numbers_in(row[column]))}
    if len(names) != 1 or len(shown) < _FEWEST:
        return
    (own,) = names
    shares = {(key, name): _share(shown, series) for key in _KEYS for name, series in report[key].items()}
    if max((share for (_, name), share in shares.items() if name == own), default=1.0) >= _OTHER:
        return
    key, name = max(shares, key=shares.__getitem__)
    if shares[key, name] >= _SAME:
        raise Missed(
            f"the row {own} of a table of report.html to hold {own}'s numbers",
            f"the {_KEYS[key]} of {name}",
            "take row names and numbers from the same dictionary, in the same order",
        )
    for key, what in _KEYS.items():
        there = report[key].get(own, {})
        if there and sum(among(value, shown.values(), _RELATIVE, 0) for value in there.values()) >= _SAME * len(there):
            raise Missed(
                f"each {what} of {own} in the column of its batch, in report.html",
                "the same numbers in other columns",
                "sort the batches as numbers, the head of the table and the rows alike",
            )


def _share(shown: dict[str, float], series: dict[str, float]) -> float:
    right = [batch for batch, value in shown.items() if among(series[batch], [value], _RELATIVE, _ROUNDING)]
    return len(right) / len(shown)
