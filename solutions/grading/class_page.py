"""class.html: the class at a glance, from its grades and records; no script, nothing loaded from elsewhere."""

import datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from helpers.tools.files import atomic_write
from solutions.grading.class_figures import ClassFigures
from solutions.grading.untrusted.text import printable

PAGE = "class.html"
_TEMPLATES = Path(__file__).parent / "templates"


def write_class_page(folder: Path, figures: ClassFigures) -> Path:
    """Write the page into `folder` and return its path."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if isinstance(value, str) else value,
    )
    now = datetime.datetime.now().astimezone()
    page = environment.get_template("class.html.j2").render(figures=figures, written=f"{now:%Y-%m-%d %H:%M}")
    atomic_write(folder / PAGE, page)
    return folder / PAGE
