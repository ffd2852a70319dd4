"""Lays out the pages' sources in a new folder, each at its place in the repository, so that links between them hold."""

import shutil
from pathlib import Path

import nbformat

from helpers.course.steps import STEPS
from website.notebook import for_readers, lead, title
from website.repository import PAGES, PICTURES, Repository

INDEX = Path(__file__).with_name("index.md")
_ORPHANS = ("docs/results/*/*.md", "labs/messages/*.md")  # reached from other pages, not from the contents
_CHAPTERS = "<!-- the chapters -->"
_OPTIONAL = "<!-- the optional chapters -->"
_OTHER_DOCS = "<!-- the other docs -->"


def lay_out(repository: Repository, folder: Path) -> None:
    """Copy pages, pictures and the start page to `folder`."""
    pages = repository.files(PAGES)
    for path in [*pages, *repository.files(PICTURES)]:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".ipynb":
            nbformat.write(for_readers(repository.root / path, repository), target)
        elif any(map(path.match, _ORPHANS)):
            target.write_text("---\norphan: true\n---\n\n" + (repository.root / path).read_text())
        else:
            shutil.copyfile(repository.root / path, target)
    notebooks = [path for path in pages if path.suffix == ".ipynb"]
    start = INDEX.read_text().replace("](../", "](")  # at the site's root it lies one folder higher
    others = [f"/docs/{path.stem}" for path in pages if path.parent == Path("docs") and f"/{path.stem}>" not in start]
    steps = [path for path in notebooks if path.parent.name in STEPS]
    start = start.replace(_CHAPTERS, _chapters(repository.root, steps)).replace(_OTHER_DOCS, "\n".join(others))
    start = start.replace(_OPTIONAL, _chapters(repository.root, notebooks[len(steps) :]))
    (folder / INDEX.name).write_text(start)


def _chapters(root: Path, notebooks: list[Path]) -> str:
    """The notebooks as a Markdown list: title, and what one does there."""
    entries = []
    for path in notebooks:
        notebook = nbformat.read(root / path, as_version=4)
        entries.append(f"- [{title(notebook)}]({path.as_posix()})\n\n  {lead(notebook)}")
    return "{.chapters}\n" + "\n".join(entries)
