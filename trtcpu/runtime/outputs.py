"""Outputs that the caller gives memory for when their size is known: `IOutputAllocator`."""

from trtcpu.api.pybind import Overridable, to_override
from trtcpu.api.types import Dims


class IOutputAllocator(Overridable):
    """Base of what allocates outputs; one of the two `reallocate_output` must be overridden."""

    __slots__ = ()

    @to_override
    def reallocate_output(self, tensor_name: str, memory: int, size: int, alignment: int) -> int:
        """Return the address of `size` bytes for an output: `memory`, what it had before, or something else."""

    def reallocate_output_async(self, tensor_name: str, memory: int, size: int, alignment: int, stream: int) -> int:
        """Return what `reallocate_output` does, for work on a stream."""
        return self.reallocate_output(tensor_name, memory, size, alignment)

    @to_override
    def notify_shape(self, tensor_name: str, shape: Dims) -> None:
        """Take an output's shape: it is known once the engine ran, or before if it follows the inputs' shapes."""
