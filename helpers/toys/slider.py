"""A chart that its reader moves: a slider, and under it what is drawn for the value chosen.

It needs ipywidgets and a live kernel. Draw the chart for some values first: a page that nobody can move shows that.
"""

import io
from collections.abc import Callable, Sequence

from matplotlib import pyplot as plt
from matplotlib.figure import Figure


def show_slider(draw: Callable[[float], Figure], values: Sequence[float], name: str, first: int = 0) -> None:
    """Show a slider called `name` over `values`, beginning with number `first`, and the figure of the value chosen.

    Without ipywidgets one line says how to get it.
    """
    try:
        import ipywidgets
        from IPython.display import display
    except ImportError:
        print("the slider needs ipywidgets: pip install ipywidgets, then restart the kernel")
        return
    options = [(f"{value:.2f}", value) for value in values]
    chosen = ipywidgets.SelectionSlider(options=options, index=first, description=name)
    picture = ipywidgets.Image(value=png(draw(chosen.value)), format="png")
    chosen.observe(lambda change: setattr(picture, "value", png(draw(change["new"]))), names="value")
    display(ipywidgets.VBox([chosen, picture]))


def png(figure: Figure) -> bytes:
    """Return a figure as a PNG, and close it, so that the notebook does not show it once more."""
    target = io.BytesIO()
    figure.savefig(target, format="png")
    plt.close(figure)
    return target.getvalue()
