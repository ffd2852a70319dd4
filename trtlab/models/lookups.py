"""Which inputs of a model look up rows of a table, and how many rows it has: other integers are masks and flags."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_COPIES = (torch.ops.aten._to_copy.default, torch.ops.aten.clone.default)
_LOOKUPS = ("aten.embedding", "aten._embedding_bag")


class Lookups(TorchDispatchMode):
    """While it is active, `rows` gets the rows of the smallest table that each of `values` looks up, also cast.

    Operators are watched, not layers: a scripted module and an exported program have no embedding layer to ask.
    """

    def __init__(self, values: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.rows: dict[str, int] = {}
        # a view shares its tensor's storage; kept here, none is given to another tensor
        self._storages = [(value.untyped_storage(), name) for name, value in values.items()]

    def __torch_dispatch__(self, operator: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        """Run an operator and look at what it reads."""
        result = operator(*args, **(kwargs or {}))
        if operator in _COPIES:
            self._storages += [(result.untyped_storage(), name) for name in self._names(args[0])]
        elif str(operator).startswith(_LOOKUPS):
            rows = len(args[0])
            self.rows |= {name: min(rows, self.rows.get(name, rows)) for name in self._names(args[1])}
        return result

    def _names(self, tensor: torch.Tensor) -> list[str]:
        """Return the names of the inputs whose values a tensor holds."""
        place = tensor.untyped_storage().data_ptr()
        return [name for storage, name in self._storages if storage.data_ptr() == place]
