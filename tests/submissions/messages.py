"""Writes the pages of messages, one per step: what a check says when a point is missed, and a usual cause.

Every message comes from an entry of the bank that was really graded; none is typed by hand. Drawn numbers and names are
left out, so that a page changes only with its messages.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict

from helpers.course.steps import BY_NAME, CELLS, GRADED
from helpers.tools.files import atomic_write
from solutions.checks.core.asked import points_of

_INDEX = "README.md"
_HEAD = """# Step {number}, {title}: what its messages mean

Expected → found, what to **try**, *a usual cause*; "…" is what changes. [Messages of every step]({index})
"""
_INDEX_HEAD = """# What a check's message means

A missed point shows what was expected, what was found and what to try. Each step has a page with its messages:

{steps}

These can come in every step:

| found, or the exception | do |
|---|---|
| the TODO is still there | write the function, remove the `raise` line, run the cell and then the check |
| … is not defined | run the cell that defines it, and read its error |
| … is of an earlier run, or is not what its cell says | fix the error in its cell, and run that again |
| an exception and "line … of …" | your function raised it: look at that line of its cell |
| an exception without a line | check type and shape of what your function returns |
| still running after … s | look for a loop that does not end |
| … is not plain data | return numbers, text or arrays, not objects |
| no such file, an empty file | run the cell that writes it to `labs/artifacts/` |
| the connection ended, the cell ended | a cell ends the kernel: restart it, and run the cells one by one |
| the check itself failed | tell your instructor |
"""
_POINT = re.compile(
    r"^  ✗ (?P<title>.+?)\n +expected +(?P<expected>.*?)\n +found +(?P<found>.*?)\n +try +(?P<try_this>.*?)$", re.M
)
_RAISED = " to run without an exception"
_SAID = ("expected", "found", "try_this")
_LONGEST, _TELLING = 64, 4  # characters of a text; words that "found" must add to "expected"
_DRAWN = (
    (r"\s+", " "),
    (r"; it printed: .*| \(line \d.*| \(and \d+ more differ\)$|/tmp/[\w./-]*/", ""),
    (r"(?<=line )\d+|(?<=[a-z/])\d+(?=/)|\b[A-Z]{12}\b|\([0-9a-f]{2} .*…\)", "…"),
    (r"(?<= = )(.*?), [^,=]*\w[^,=]* = .*", r"\1, …"),  # one part that differs is enough
    (r"(?<=\w\()([^()]{24,}|[^()]*[\[{'].*?)(\)(?=:| to |$)|$)", "…)"),  # a call's arguments
    (r"(?<=[\w\]])(\[[^\[\]]*\])+(?= =)", "[…]"),  # where in a list or dictionary
    (r"^\[\[.*|\[\{[^]]*$|[\[{][^\[\]{}]{40,}([\]}]|$)", "[…]"),
    (r"\b\d+\.(\d\d+(e-?\d+)?%?|\d%)|\b\d{5,}\b|\b\d+(,\d{3})+\b|\b\d+e[-+]\d+\b", "…"),
    (r"(\d+: [\d.…]+(, )?){2,}|…(,? ?…)+", "…"),
)


class Row(TypedDict):
    """What a point of a test cell said of a wrong entry; `cause` is what the bank says about the entry."""

    cell: str
    title: str
    cause: str
    expected: str
    found: str
    try_this: str


def rows_of(figures: dict[str, Any]) -> list[Row]:
    """Return a message of each claim, and of each point of a visible check, from a run of the bank.

    It is that of the entry that loses the fewest claims, whose mistake is most likely about this point.
    """
    best: dict[tuple[bool, str, str], tuple[tuple[bool, int], Row]] = {}
    for row in figures["entries"]:
        for visible, cell, title, missed in _said(row) if row["kind"] == "wrong" else ():
            told = Row(cell=cell, title=title, cause=row["about"], **missed)
            place, rank = (visible, cell, title), (_raised(told), len(row["lost"]))
            if place not in best or rank < best[place][0]:
                best[place] = rank, told
    return [row for _, row in best.values()]


def _said(row: dict[str, Any]) -> Iterator[tuple[bool, str, str, dict[str, str]]]:
    """Yield whether a check is visible, its cell, the title of its point, and the message."""
    for cell in BY_NAME[row["step"]].cells:
        for claim in points_of(cell):
            if claim.name not in row["lost_wrongly"] and (missed := row["lost"].get(claim.name)):
                yield False, cell, claim.title, missed
        for match in _POINT.finditer(row["visible"].get(cell, "")):
            yield True, cell, match["title"], {key: match[key] for key in _SAID}


def _raised(row: Row) -> bool:
    """Return whether a message only repeats an exception of the student's code."""
    return row["expected"].endswith(_RAISED)


def claims_without_message(figures: dict[str, Any]) -> list[str]:
    """Return the claims of the steps that ran which no wrong entry loses: checks that were never seen to fail."""
    lost = {name for row in figures["entries"] if row["kind"] == "wrong" for name in row["lost"]}
    ran = {row["step"] for row in figures["entries"]}
    cells = [cell for cell, about in CELLS.items() if about.step in ran]
    return [claim.name for cell in cells for claim in points_of(cell) if claim.name not in lost]


def write_messages(folder: Path, rows: Iterable[Row]) -> None:
    """Write the page of each step that has rows, and the index of all pages in the folder."""
    by_step: dict[str, list[Row]] = {}
    for row in rows:
        by_step.setdefault(CELLS[row["cell"]].step, []).append(row)
    pages: dict[str, str] = {}
    for step in GRADED:
        if step in by_step:
            atomic_write(folder / f"{step}.md", page(step, by_step[step], pages))
        if (folder / f"{step}.md").is_file():
            pages[step] = (folder / f"{step}.md").read_text()
    steps = "\n".join(f"- [{int(step[:2])}, {BY_NAME[step].title}]({step}.md)" for step in pages)
    atomic_write(folder / _INDEX, _INDEX_HEAD.format(steps=steps))


def page(step: str, rows: list[Row], earlier: Mapping[str, str]) -> str:
    """Return a step's page: each message once, with its points, under their task; each cause once.

    A message that one of the `earlier` pages has is only linked.
    """
    for cell in BY_NAME[step].cells:
        points_of(cell)  # adds the hidden points to the tasks
    tasks = import_module(f"helpers.checks.points.s{step}").TASKS
    task_of = {(task.cell, point.title): task.title for task in tasks for point in task.points}
    messages, causes = _merged(rows, [*task_of]), set[str]()
    parts = [_HEAD.format(number=int(step[:2]), title=BY_NAME[step].title, index=_INDEX)]
    for task in dict.fromkeys(task_of.values()):
        own, linked = [message for message in messages if task_of[message[0][0]] == task], dict[str, list[str]]()
        parts += [f"## {task}\n"] * bool(own)
        last = ""
        for places, row in own:
            titles = [*dict.fromkeys(title for _, title in places)]
            there = next((name for name, text in earlier.items() if _try(row) in text), "")
            if there:
                linked.setdefault(there, []).extend(titles)
            else:
                heading = f"### {titles[0]}\n\n"
                told = _told(titles, Row(**{**row, "cause": row["cause"] * (row["cause"] not in causes)}))
                parts.append(told.removeprefix(heading) if last == heading else told)
                last = heading
                causes.add(row["cause"])
        for there, titles in linked.items():
            parts.append(f"As in [step {int(there[:2])}]({there}.md): {'; '.join(titles)}.\n")
    return "\n".join(parts)


def _merged(rows: list[Row], order: list[tuple[str, str]]) -> list[tuple[list[tuple[str, str]], Row]]:
    """Return each message once, one for each thing to try, in this order of the points, and with its points.

    An exception of the student's code counts only for a point without another message. A second draw of a message
    shows which of its words are drawn.
    """
    merged: dict[str, tuple[list[tuple[str, str]], Row]] = {}
    seen = set[tuple[str, str]]()
    for row in sorted(rows, key=lambda row: (_raised(row), order.index((row["cell"], row["title"])))):
        short = Row(**{key: _without_drawn(text) if key in _SAID else text for key, text in row.items()})
        place, advice = (row["cell"], row["title"]), short["try_this"]
        if advice not in merged and not (_raised(row) and place in seen):
            merged[advice] = [place], short
        elif advice in merged and place in merged[advice][0]:
            merged[advice][1].update({key: _common(merged[advice][1][key], short[key]) for key in _SAID})
        elif advice in merged and place not in seen:
            merged[advice][0].append(place)
        seen.add(place)
    return sorted(merged.values(), key=lambda message: order.index(message[0][0]))


def _without_drawn(text: str) -> str:
    for pattern, instead in _DRAWN:
        text = re.sub(pattern, instead, text)
    return text


def _common(one: str, other: str) -> str:
    """Return the first text without the words in which two draws differ; unchanged if they differ in length."""
    parts, others = (re.findall(r"\w+|\W", text) for text in (one, other))
    if len(parts) != len(others):
        return one
    common = "".join(part if part == also else "…" for part, also in zip(parts, others, strict=True))
    return re.sub(r"\[[^\[\]]*…[^\[\]]*\]", "[…]", common)


def _told(titles: list[str], row: Row) -> str:
    """Return a message under the titles of its points, as a list of short lines."""
    said, cause = _cut(row["expected"]), _words(row["cause"])
    if len(_words(row["found"]) - _words(row["expected"])) >= _TELLING:
        said += f" → {_cut(row['found'])}"
    lines = [_escaped(said), _try(row)]
    if len(cause & _words(titles[0] + row["expected"] + row["try_this"])) < len(cause) / 2:
        lines.append(_escaped(f"*{row['cause']}*"))
    lines += [f"Also: {'; '.join(titles[1:])}"] * (len(titles) > 1)
    return "\n- ".join([f"### {titles[0]}\n", *lines]) + "\n"


def _try(row: Row) -> str:
    return _escaped(f"**Try:** {row['try_this']}")


def _words(text: str) -> set[str]:
    """Return the beginnings of a text's words."""
    return {word[:5].lower() for word in re.findall(r"[A-Za-z]{4,}", text)}


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST].rpartition(" ")[0] + " …"


def _escaped(text: str) -> str:
    """Return a text whose tags and double underscores are no markup."""
    return re.sub(r"<(?=[a-z/!])", r"\\<", text).replace("__", r"\_\_")
