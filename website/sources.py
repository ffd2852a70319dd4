"""Lays out the pages' sources in a new folder, each at its place in the repository, so that links between them hold."""

import shutil
from pathlib import Path

import nbformat

from website.notebook import for_readers, lead, title
from website.repository import PAGES, PICTURES, Repository

__all__ = ["lay_out"]

INDEX = Path(__file__).with_name("index.md")
_CHAPTERS = "<!-- the chapters -->"


def lay_out(repository: Repository, folder: Path) -> list[Path]:
    """Copy pages, pictures and the start page to `folder`; return the pages, relative to it."""
    pages = repository.files(PAGES)
    for path in [*pages, *repository.files(PICTURES)]:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".ipynb":
            nbformat.write(for_readers(repository.root / path, repository), target)
        else:
            shutil.copyfile(repository.root / path, target)
    notebooks = [path for path in pages if path.suffix == ".ipynb"]
    start = INDEX.read_text().replace("](../", "](")  # at the site's root it lies one folder higher
    (folder / INDEX.name).write_text(start.replace(_CHAPTERS, _chapters(repository.root, notebooks)))
    return [Path(INDEX.name), *pages]


def _chapters(root: Path, notebooks: list[Path]) -> str:
    """The notebooks as a Markdown list: title, and what one does there."""
    entries = []
    for path in notebooks:
        notebook = nbformat.read(root / path, as_version=4)
        entries.append(f"- [{title(notebook)}]({path.as_posix()})\n\n  {lead(notebook)}")
    return "{.chapters}\n" + "\n".join(entries)
