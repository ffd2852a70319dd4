"""Records matplotlib figures at the moment they are saved, as plain data: labels, texts and the numbers drawn."""

import contextlib
import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from helpers.probes.series import Series, points_in_view, series_of, visible

__all__ = ["Drawn", "drawn_as", "recorded_figures"]

_MOST_NUMBERS = 5000


@dataclass(frozen=True)
class Drawn:
    """A saved figure: its axis labels, every text that is shown, the coordinates that can be seen, and in which series.

    `sha256` is that of the file as it was saved, so that a file that was moved afterwards is still found; `pixels` that
    of the picture (RGB), for those that are taken from the canvas and saved by another library.
    """

    target: str
    sha256: str
    pixels: str
    x_labels: tuple[str, ...]
    y_labels: tuple[str, ...]
    texts: tuple[str, ...]
    numbers: tuple[float, ...]
    series: tuple[Series, ...] = ()


@contextlib.contextmanager
def recorded_figures() -> Iterator[list[Drawn]]:
    """Give a list that every figure saved or drawn in the block adds to; figures opened in it are closed at its end.

    pyplot, the object interface, pandas and seaborn all save through the canvas, which is where this listens.
    """
    import matplotlib.pyplot as plt
    from matplotlib.backend_bases import FigureCanvasBase
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    drawn: list[Drawn] = []
    opened = set(plt.get_fignums())

    def saved(original: Any) -> Any:
        @functools.wraps(original)  # matplotlib looks at the signature for the arguments that it may pass
        def recording(canvas: Any, filename: Any, *args: Any, **kwargs: Any) -> Any:
            start = filename.tell() if hasattr(filename, "tell") else 0
            result = original(canvas, filename, *args, **kwargs)
            drawn.append(_drawn(canvas.figure, filename, start))
            return result

        return recording

    def rendered(original: Any) -> Any:
        def recording(canvas: Any) -> Any:
            result = original(canvas)
            pixels = _pixels(np.asarray(canvas.buffer_rgba()))
            drawn.append(_drawn(canvas.figure, None, 0, pixels))
            return result

        return recording

    listeners = (
        (FigureCanvasBase, "print_figure", saved),
        (FigureCanvasAgg, "print_png", saved),
        (FigureCanvasAgg, "draw", rendered),
    )
    originals = [(kind, name, getattr(kind, name)) for kind, name, _ in listeners]
    for (kind, name, listen), (_, _, original) in zip(listeners, originals, strict=True):
        setattr(kind, name, listen(original))
    try:
        yield drawn
    finally:
        for kind, name, original in originals:
            setattr(kind, name, original)
        for number in set(plt.get_fignums()) - opened:
            plt.close(number)


def drawn_as(drawn: list[Drawn], path: str | Path) -> Drawn | None:
    """Return the last figure that was saved to `path`, or whose bytes or pixels are in it now; None without one."""
    path = Path(path)
    if not path.is_file():
        return None
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    same = [figure for figure in drawn if figure.sha256 == digest]
    named = [figure for figure in drawn if figure.target and Path(figure.target).resolve() == path.resolve()]
    if not (same or named):
        with contextlib.suppress(OSError), Image.open(path) as picture:
            pixels = _pixels(np.asarray(picture.convert("RGB")))
            same = [figure for figure in drawn if figure.pixels == pixels]
    return (same or named or [None])[-1]


def _pixels(picture: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(picture[..., :3]).tobytes()).hexdigest()


def _drawn(figure: Any, target: Any, start: int, pixels: str = "") -> Drawn:
    name, digest = "", ""
    if isinstance(target, (str, Path)):
        name = str(target)
        for place in (Path(name), Path(f"{name}.png")):
            if place.is_file():
                digest = hashlib.sha256(place.read_bytes()).hexdigest()
                break
    elif hasattr(target, "getvalue"):
        digest = hashlib.sha256(target.getvalue()[start:]).hexdigest()
    elif hasattr(target, "name"):
        with contextlib.suppress(OSError, ValueError):
            target.flush()
        name = str(target.name)
    axes = figure.get_axes()
    return Drawn(
        name,
        digest,
        pixels,
        _shown([axis.xaxis.label for axis in axes] + [getattr(figure, "_supxlabel", None)]),
        _shown([axis.yaxis.label for axis in axes] + [getattr(figure, "_supylabel", None)]),
        _texts(figure),
        tuple(_numbers(axes)),
        series_of(figure),
    )


def _shown(texts: list[Any]) -> tuple[str, ...]:
    found = [text.get_text() for text in texts if text is not None and text.get_visible()]
    return tuple(" ".join(text.split()) for text in found if text.strip())


def _texts(figure: Any) -> tuple[str, ...]:
    from matplotlib.text import Text

    return _shown(figure.findobj(Text))


def _numbers(axes: list[Any]) -> list[float]:
    """Return the coordinates of lines, bars, markers, areas and pictures in data units, without doubles."""
    parts: list[np.ndarray] = []
    for axis in axes:
        for line in filter(visible, axis.get_lines()):
            parts.append(points_in_view(axis, line.get_xdata(orig=False), line.get_ydata(orig=False)).ravel())
        for patch in filter(visible, axis.patches):
            vertices = patch.get_path().vertices
            if hasattr(patch, "get_height"):  # a bar: its length counts, wherever it starts
                box = [patch.get_x(), patch.get_y(), patch.get_width(), patch.get_height()]
                parts.append(np.array([*box, box[0] + box[2], box[1] + box[3]], dtype=float))
            else:
                parts.append(_flat(vertices))
        for collection in filter(visible, axis.collections):
            parts.append(_flat(collection.get_offsets()))
            parts += [_flat(path.vertices) for path in collection.get_paths()[:200]]
            parts += [_flat(collection.get_array())]
        parts += [_flat(image.get_array()) for image in axis.get_images() if np.size(image.get_array()) < _MOST_NUMBERS]
    if not parts:
        return []
    values = np.unique(np.concatenate(parts))
    return values[np.isfinite(values)][:_MOST_NUMBERS].tolist()


def _flat(values: Any) -> np.ndarray:
    """Return the values as numbers; names of categories and other things that are no numbers give none."""
    if values is None:
        return np.empty(0)
    try:
        return np.ma.filled(np.ma.asarray(values).astype(float), np.nan).ravel()
    except (TypeError, ValueError):
        return np.empty(0)
