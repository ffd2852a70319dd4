"""Lays out the pages' sources in a new folder, each at its place in the repository, so that links between them hold."""

import shutil
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from helpers.course.steps import BY_NAME, STEPS
from website import names
from website.notebook import for_readers, lead, title
from website.repository import PAGES, PICTURES, Repository

INDEX = Path(__file__).with_name("index.md")
_REACHED_BY_LINKS = ("docs/results/*/*.md", "labs/messages/*.md")  # and by the search; not in the contents
_CHAPTERS = "<!-- the chapters -->"
_OPTIONAL = "<!-- the optional chapters -->"
_OTHER_DOCS = "<!-- the other docs -->"


def lay_out(repository: Repository, folder: Path) -> None:
    """Copy pages and pictures to `folder`; write the start page and the page of TensorRT's names."""
    pages, notebooks = repository.files(PAGES), {}
    for path in [*pages, *repository.files(PICTURES)]:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".ipynb":
            notebooks[path.as_posix()] = for_readers(repository.root / path, repository)
            nbformat.write(notebooks[path.as_posix()], target)
        elif any(path.match(pattern) for pattern in _REACHED_BY_LINKS):
            target.write_text("---\norphan: true\n---\n\n" + (repository.root / path).read_text())
        else:
            shutil.copyfile(repository.root / path, target)
    (folder / "names.md").write_text(names.page(repository.root, notebooks))
    (folder / INDEX.name).write_text(_start(pages, notebooks))


def _start(pages: list[Path], notebooks: dict[str, NotebookNode]) -> str:
    """The start page, with the chapters and the pages that it does not name itself."""
    start = INDEX.read_text().replace("](../", "](")  # at the site's root it lies one folder higher
    others = [f"/docs/{path.stem}" for path in pages if path.parent == Path("docs") and f"/{path.stem}>" not in start]
    chapters = list(notebooks.items())
    steps = sum(Path(path).stem in STEPS for path in notebooks)
    start = start.replace(_OTHER_DOCS, "\n".join(others)).replace(_OPTIONAL, _cards(chapters[steps:]))
    return start.replace(_CHAPTERS, _cards(chapters[:steps]))


def _cards(chapters: list[tuple[str, NotebookNode]]) -> str:
    """The notebooks as a Markdown list: title, what one does there, minutes and points."""
    cards = [f"- [{title(each)}]({path})\n\n  {lead(each)}\n\n  {_size(Path(path).stem)}" for path, each in chapters]
    return "{.chapters}\n" + "\n".join(cards)


def _size(name: str) -> str:
    """Minutes and points of a step, as the course's table has them."""
    if (step := BY_NAME.get(name)) is None:
        return ""
    bonus = " bonus" if step.optional else ""
    return f"{step.minutes} minutes" + (f" · {step.points:g}{bonus} points" if step.points else "")
