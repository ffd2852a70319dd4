"""What loading children answered in this run: equal files, loaded in equal order, are loaded and run once.

A file may take over the child that loads it; what that child answers from then on is the file's doing. So an answer is
known again only where a judge has asked for the very same things, in the same order, since it began. Who hands in other
files meets no answer that those of somebody else could have changed.
"""

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from helpers.checks.probes.codec import NotPlainDataError, pack, unpack
from helpers.tools.files import atomic_write

_LARGE, _LARGEST = 1 << 20, 64 << 20
# Large answers share 256 places, so that the folder does not grow with the class.
_SLOTS_HEX = 2


class Memory:
    """One judge's part of it.

    Args:
        folder: where the answers are kept, which only judges can write; None where none are.
        device: what answers, so that none is taken for that of another machine.
    """

    def __init__(self, folder: Path | None = None, device: str = "") -> None:
        self._folder = folder
        self._asked = hashlib.sha256(device.encode())

    def ask(self, request: bytes) -> str:
        """Note that a child is asked for this next; return the name of the answer."""
        self._asked.update(hashlib.sha256(request).digest())
        return self._asked.hexdigest()

    def known(self, name: str) -> list[Any]:
        """Return the answer alone in a list, which is empty where there is none."""
        for place in (name, name[:_SLOTS_HEX]) if self._folder else ():
            with suppress(OSError, NotPlainDataError):
                kept, value = unpack((self._folder / place).read_bytes())
                if kept == name:
                    return [value]
        return []

    def keep(self, name: str, value: Any) -> None:
        """Keep an answer, where there is room for it."""
        if self._folder is None:
            return
        with suppress(OSError, NotPlainDataError):  # an answer less, which is asked for again
            content = pack([name, value])
            if len(content) <= _LARGEST:
                atomic_write(self._folder / (name if len(content) < _LARGE else name[:_SLOTS_HEX]), content)
