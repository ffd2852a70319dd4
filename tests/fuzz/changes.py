"""Changes at any place of a JSON value."""

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from tests.fuzz import JSON

Path = tuple[str | int, ...]


@st.composite
def changed(draw: st.DrawFn, good: Any, other: st.SearchStrategy[Any] = JSON) -> Any:
    """Return `good` with one to three of its parts replaced by something else, taken out or doubled."""
    value = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(_paths(value))))
        if not path:
            return copy.deepcopy(draw(other))
        place = value
        for key in path[:-1]:
            place = place[key]
        match draw(st.sampled_from(["replace", "replace", "remove", "double"])):
            case "replace":
                place[path[-1]] = copy.deepcopy(draw(other))
            case "remove":
                del place[path[-1]]
            case "double" if isinstance(place, list):
                place.append(copy.deepcopy(place[path[-1]]))
            case _:
                place[draw(st.text(max_size=8)) if isinstance(place, dict) else path[-1]] = copy.deepcopy(draw(other))
    return value


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from _paths(child, (*path, key))
