"""What is asked of every builder function: 2 GB of workspace, and failures that raise and spoil no older engine."""

from typing import Any

from helpers.missed import Missed
from helpers.probes.student import Student

__all__ = ["check_workspace", "fails_cleanly"]

WORKSPACE_BYTES = 2 << 30
NO_MODEL = b"this is not an ONNX model"


def check_workspace(built: dict[str, Any]) -> str:
    """Return evidence that the last build of a `build_engine` result was limited to 2 GB, of either size of a GB."""
    builds = built["builds"]
    found = builds[-1]["workspace_bytes"] if builds else 0
    if not 0.99 * 2e9 <= found <= WORKSPACE_BYTES:
        raise Missed(
            f"a workspace limit of 2 GB ({WORKSPACE_BYTES:,} bytes)",
            f"{found:,} bytes" if builds else "no build",
            "set the WORKSPACE memory pool's limit on the builder's configuration, in bytes",
        )
    return f"{found:,} bytes"


def fails_cleanly(student: Student, operation: str, asked: str, model: bytes, **arguments: Any) -> None:
    """Call an operation that gives `failed_build`'s result, for no ONNX model and for `model`, whose build gives None.

    `asked` is the function whose work it is.

    Raises:
        Missed: a failure passed in silence, ended in a slip, or cost the older engine file.
    """
    for onnx, what in ((NO_MODEL, "a file that is no ONNX model"), (model, "a build that gives None")):
        failed = student.call(operation, onnx=onnx, parsed=onnx is model, **arguments).require(asked)
        if failed["raised"] is None or failed["slip"]:
            found = failed["raised"] or f"a {failed['returned_type']} and no exception"
            raise Missed(f"an exception that you raise for {what}", found, "test what each call of TensorRT returns")
        if not failed["kept"]:
            found = f"after {what} it was another or gone"
            raise Missed("the engine file of an earlier build as it was", found, "write the file last")
