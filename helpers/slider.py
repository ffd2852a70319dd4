"""A figure that a slider redraws where the notebook runs, and a still picture of it anywhere else."""

import io
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["WIDGET", "show_slider"]

WIDGET = "application/vnd.jupyter.widget-view+json"
"""What a running notebook shows of an output that has it; a page of outputs shows the PNG beside it."""


def show_slider(draw: Callable[[float], None], name: str, limits: tuple[float, float, float], still: "Figure") -> None:
    """Show a slider called `name` above what `draw(value)` draws and shows; `still` on pages where nothing runs.

    `limits` are the least value, the largest, and the first. `still` is a figure of matplotlib, which is closed; it is
    all that is shown where ipywidgets is not installed.
    """
    import matplotlib.pyplot as plt
    from IPython.display import display

    content = io.BytesIO()
    still.savefig(content, format="png", dpi=90)
    plt.close(still)
    picture = {"image/png": b64encode(content.getvalue()).decode(), "text/plain": f"a figure with a slider: {name}"}
    display({**_slider(draw, name, limits), **picture}, raw=True)


def _slider(draw: Callable[[float], None], name: str, limits: tuple[float, float, float]) -> dict[str, object]:
    """Return the slider and its figure as an output's data; nothing where ipywidgets is not installed."""
    try:
        import ipywidgets
    except ImportError:
        return {}
    least, most, first = limits
    slider = ipywidgets.FloatSlider(
        first, min=least, max=most, step=(most - least) / 200, description=name, continuous_update=False
    )
    drawn = ipywidgets.interactive_output(draw, {"value": slider})
    return ipywidgets.VBox([slider, drawn])._repr_mimebundle_()
