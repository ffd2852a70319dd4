"""How much a running notebook may show: counted as messages come, whichever cell's output they change."""

from typing import Any

_OUTPUTS = ("stream", "display_data", "execute_result", "error", "update_display_data")
# Characters that an output takes in a page beside what it says: a million of one letter is no small page.
_OVERHEAD = 100
# Cells whose limits may be used up in one notebook.
_CELLS = 10


class OutputRoom:
    """Lets outputs pass up to `limit` characters a cell, ten times that in all; a display's update counts as an output.

    nbclient puts an update into every output of that display, and keeps what widgets say; it bounds neither.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._cell, self._all = limit, limit * _CELLS

    def next_cell(self) -> None:
        """Begin a cell: it has the whole limit, as far as the notebook has."""
        self._cell = min(self.limit, max(self._all, 1))

    def admit(self, message: dict[str, Any], places: int = 1) -> dict[str, Any] | None:
        """Return a kernel's message as it may pass; in place of the first that does not fit one line that says so.

        Args:
            message: what the kernel sent; one that is not formed as Jupyter's are raises whatever that leads to.
            places: how many outputs it changes.
        """
        if message["msg_type"].startswith("comm"):
            return None  # widgets: their state would be kept in the notebook, and no page shows them
        if message["msg_type"] not in _OUTPUTS:
            return message
        if self._cell <= 0:
            return None
        size = _characters_in_page(message["content"]) * places
        self._cell -= size
        if self._cell > 0:
            self._all -= size
            return message
        text = f"\n[more than {self.limit:,} characters of output; the rest was dropped]\n"
        header = {**message["header"], "msg_type": "stream"}
        return {**message, "header": header, "msg_type": "stream", "content": {"name": "stdout", "text": text}}


def _characters_in_page(content: dict[str, Any]) -> int:
    said = [content.get(part, "") for part in ("text", "traceback", "evalue")]
    return _OVERHEAD + sum(len(str(part)) for part in (*said, *content.get("data", {}).values()))
