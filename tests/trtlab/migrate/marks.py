"""The samples, each line with what is expected of it.

`#: +Builder.refittable` says that this is found in the line and rewritten; without + it is left to people; with 10+ it
is rewritten for TensorRT 10 alone.
"""

import re
from collections import Counter
from pathlib import Path

SAMPLES = sorted((Path(__file__).parent / "samples").glob("*.py"))
_EXPECTED = re.compile(r"#: (.+)$")


def expected(path: Path, to: int) -> Counter[tuple[int, str, bool]]:
    """Return line, name and whether it is rewritten of each use in a sample that is marked as found."""
    found: Counter[tuple[int, str, bool]] = Counter()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for mark in marks[1].split(", ") if (marks := _EXPECTED.search(line)) else ():
            only_10, plus, name = re.fullmatch(r"(10)?(\+?)(.+)", mark).groups()
            found[number, name, bool(plus) and (to == 10 or not only_10)] += 1
    return found
