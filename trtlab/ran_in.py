"""What really ran, in the words of tables and labels: in which precision most layers, and on which processor."""

from collections.abc import Mapping


def most_layers(layer_precisions: Mapping[str, int]) -> str | None:
    """Return the precision of most layers (count_precisions), None if no layer says its own."""
    return max((each for each in layer_precisions if each != "other"), key=layer_precisions.__getitem__, default=None)


def differs(asked: str | None, ran_in: str | None) -> bool:
    """Say whether most layers run in a precision that was not asked for; what is not known differs in nothing."""
    return ran_in is not None and asked not in (None, "?") and ran_in not in asked.split("+")


def ran_text(asked: str | None, ran_in: str | None) -> str | None:
    """Return a table's words: "FP16", "BF16 (asked FP16)"; None if it is not known."""
    if ran_in is None:
        return None
    return ran_in.upper() + (f" (asked {asked.upper()})" if asked and differs(asked, ran_in) else "")


def elsewhere(engine: dict[str, str], device: str | None) -> str | None:
    """Return what a baseline ran on if that is the CPU beside the engine's GPU ("CPU, 16 threads"), else None.

    Args:
        engine: helpers.engine.backend.describe().
        device: "ONNX Runtime 1.23.2, CPU, 16 threads", a runner's device.
    """
    where = (device or "").partition(", ")[2]
    return where if engine["name"] == "tensorrt" and where.startswith("CPU") else None
