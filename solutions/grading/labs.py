"""`python -m solutions.grading.labs`: what students get, made from the notebooks in solutions/.

- `write` makes labs/, and brings the tables of steps and the address in README.md and labs/README.md up to date.
  Students get no answers, hidden tests, marking schemes and outputs, and no cell tagged "answers"; if one would stay,
  nothing is written. A notebook that somebody worked in is kept in labs/.kept/, and files that are not ours stay.
- `pack` makes dist/trt-lab-student.zip: these notebooks, helpers/, trtcpu/, the data, and what is needed to set up.
  The notebooks are in .handout/: a newer release overwrites no work.
- `check` names the outputs in solutions/ that are older than their code.

The same sources give the same bytes.
"""

import hashlib
import re
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import jinja2
import nbformat
import typer
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from helpers.course.handout import (
    ELSEWHERE,
    HANDOUT,
    as_handed_out,
    copy_pictures,
    keep,
    mark,
    notebooks,
    read_notebook,
)
from helpers.course.steps import LAB, START, STEPS, TABLE
from helpers.tools.files import atomic_path, atomic_write
from solutions.grading.addresses import (
    BUNDLE,
    NOT_PUBLISHED,
    bundle_address,
    in_colab,
    is_published,
    repository_address,
)
from solutions.grading.course import Course
from solutions.grading.grades import check_worth
from solutions.grading.layout import ROOT
from solutions.grading.run import one_line_a_fault
from trtcpu.errors import InputError

app = typer.Typer(add_completion=False)

# The key in the metadata of an executed notebook and its cells: what `solve` noted of their execution.
ABOUT = "trt_lab"

# The first code cell of each handed-out notebook; `bundle` is the students' archive's address, `folder` its top.
FIRST_CELL = """\
# @title Colab, Kaggle: fetches the lab. Where it is installed this does nothing.
try:
    import helpers
except ModuleNotFoundError:
    import os, shutil, sys, urllib.request

    lab_bundle = os.environ.get("TRT_LAB_BUNDLE", "{bundle}")
    try:
        shutil.unpack_archive(urllib.request.urlretrieve(lab_bundle)[0], format="zip")
    except OSError as error:
        raise RuntimeError(
            f"the lab could not be fetched from {{lab_bundle}} ({{error}}); "
            "let this place use the internet (Kaggle: Settings, Internet on) and run this cell again"
        ) from None
    sys.path.insert(0, os.path.abspath("{folder}"))
    from helpers.course import elsewhere

    elsewhere.set_up()"""

# The pages with tables of steps: what stands above the rows, and jinja2's template of a row.
PAGES = {
    "README.md": (
        "| step | about | executed solution |\n|---|---|---|\n",
        "| {{ name[:2]|int }} | {{ about }} | [{{ name }}](solutions/{{ name }}/{{ name }}.ipynb) |",
    ),
    "labs/README.md": (
        "| step | you write | makes | time | points |\n|---|---|---|---|---|\n",
        "| {{ name[:2]|int }} [{{ title }}]({{ name }}/{{ name }}.ipynb)"
        "{{ ', a chapter to read and run' if not points }} | {{ '`' ~ writes|join('`, `') ~ '`' if writes }} "
        "| {{ '`' ~ makes|join('`, `') ~ '`' if makes }} | {{ minutes }} min | {{ '%g'|format(points) }} |",
    ),
}

_MOMENT = (2026, 1, 1, 0, 0, 0)
_FOLDERS = ("helpers", "labs/messages", "trtcpu", "datasets")
_LEFT_OUT = {"__pycache__", ".ipynb_checkpoints", "artifacts", "cache", "train_weights.py"}
# What is in the archive as it is here; labs/AGENTS.md holds for labs/ in the repository, and for all of the archive.
_ALIKE = {
    "AGENTS.md": "labs/AGENTS.md",
    **{name: name for name in ("environment.yml", "constraints.txt", "course.toml", "install.py", "LICENSE")},
}

# What becomes of pyproject.toml: helpers and trtcpu, no command line, no tools of this repository.
_PROJECT = {
    r"\n\[tool\.pytest.*": "",
    r"^\[project\.scripts\]\n.*?(?=^\[)": "",
    r'^("?(solutions|trtlab)\.|(dev|grade|slurm|site) = )[^\n]*\n': "",
    r', "solutions\*", "trtcpu\*", "trtlab\*"\]': ', "trtcpu*"]',
    r'name = "trt-lab"': f'name = "{BUNDLE}"',
}

_SECRET = re.compile(
    r"(BEGIN|END) (SOLUTION|HIDDEN TESTS|MARK SCHEME)|(solutions|trtlab)\.\w|(import|from) (solutions|trtlab)\b"
)


def make_labs(course: Course, target: Path) -> Path | None:
    """Write every step that is present to `target`/<step>/ and remove the notebooks of steps that are gone.

    Returns:
        The folder with the notebooks that somebody had worked in; None if there were none.

    Raises:
        InputError: a step could not be made, would show what students must not see, or what lies there is no notebook.
    """
    places = [target / name for name in notebooks(LAB)]
    worked_in = [path for path in places if path.is_file() and not as_handed_out(path)]
    with tempfile.TemporaryDirectory() as folder:
        hand_out(course, Path(folder))
        kept = keep(worked_in, target)
        for place in places:
            new = Path(folder) / place.relative_to(target)
            if new.is_file():
                copy_pictures(new.parent, place.parent)
                atomic_write(place, new.read_bytes())
            else:
                place.unlink(missing_ok=True)
    return kept


def hand_out(course: Course, folder: Path) -> None:
    """Write the start page and every step that is present to the new folder `folder`, marked as handed out.

    Raises:
        InputError: a step could not be made, would show what students must not see, or a cell has other points than its
            claims.
    """
    check_worth(course)
    made = {START: read_notebook(Path(__file__).parent / START)}
    for step in course.present:
        course.generate(step, folder)
        made[f"{step}/{step}.ipynb"] = read_notebook(folder / step / f"{step}.ipynb")
    for name, notebook in made.items():
        _take_out(notebook, Path(name).name)
        _open_elsewhere(notebook, f"labs/{name}")
        mark(notebook)
        nbformat.write(notebook, folder / name)


def _take_out(notebook: NotebookNode, name: str) -> None:
    """Remove the answers and the notes of their execution. Raises InputError if students could see more of ours."""
    notebook.cells = [cell for cell in notebook.cells if "answers" not in cell.metadata.get("tags", [])]
    for number, cell in enumerate(notebook.cells, 1):
        cell.metadata.pop(ABOUT, None)
        if found := _SECRET.search(cell.source):
            raise InputError(f"{name}, cell {number}, would hand out {found[0]!r}; mark it as solution or hidden")


def _open_elsewhere(notebook: NotebookNode, path: str) -> None:
    """Add links to Colab and to the checks' messages below the title, then the cell that fetches the lab."""
    title, *rest = notebook.cells[0].source.split("\n", 1)
    links, messages = [], f"messages/{Path(path).stem}.md"
    if is_published(address := repository_address(ROOT)):
        links.append(f"[Open in Colab]({in_colab(address, path)})")
    if (ROOT / "labs" / messages).is_file():
        links.append(f"[What the checks' messages mean](../{messages})")
    if links:
        notebook.cells[0].source = "\n".join([title, "", " · ".join(links), *rest])
    folded = {"jupyter": {"source_hidden": True}, "cellView": "form"}  # JupyterLab's word for it, and Colab's
    code = FIRST_CELL.format(bundle=bundle_address(ROOT), folder=BUNDLE)
    notebook.cells.insert(1, new_code_cell(code, id=ELSEWHERE, metadata=folded))


def with_facts(page: str, text: str) -> str:
    """Return the text of one of PAGES with its two tables of steps, and its address of the repository, up to date.

    Raises:
        InputError: it does not have the two tables.
    """
    head, row = PAGES[page]
    before, *tables = text.split(head)
    if len(tables) != 2:
        raise InputError(
            f"{page} has {len(tables)} tables of steps, not two: "
            f"the head {head.splitlines()[0]!r} must stand in it twice"
        )
    for number, optional in enumerate((False, True)):
        steps = [step for step in TABLE if step.optional == optional]
        rows = [jinja2.Template(row).render(vars(step), points=step.points) for step in steps]
        tables[number] = "\n".join(rows) + tables[number][tables[number].index("\n\n") :]
    address = repository_address(ROOT)
    clone = f"git clone {address} && cd {address.rsplit('/', 1)[-1]}"
    return re.sub(r"git clone \S+ && cd \S+", clone, head.join([before, *tables]))


def make_release(root: Path, target: Path) -> list[str]:
    """Write the archive to `target` in one step and return the names in it; the same files give the same bytes.

    Raises:
        InputError: there are no notebooks.
    """
    files = _files(root)
    with atomic_path(target) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(f"{BUNDLE}/{name}", _MOMENT)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED)
    return sorted(files)


def _files(root: Path) -> dict[str, bytes]:
    """Return all that is in the archive, by its name there."""
    course, own = Course.at(root), Path(__file__).parent / "student"
    if not course.present:
        raise InputError("solutions/ has no notebooks; run this in the repository's folder")
    found = {name: root / place for name, place in _ALIKE.items()}
    found |= {path.name: path for path in own.iterdir() if path.is_file()}
    found |= {name: root / name for name in archived(root, _FOLDERS)}
    with tempfile.TemporaryDirectory() as folder:
        hand_out(course, Path(folder))
        found |= {f"{HANDOUT}/{path.relative_to(folder)}": path for path in Path(folder).rglob("*.*")}
        files = {name: path.read_bytes() for name, path in found.items()}
    page = "labs/README.md"  # as it lies there it has the steps of the last `make labs`
    files[page] = with_facts(page, (root / page).read_text()).encode()
    return files | {"pyproject.toml": _student_project((root / "pyproject.toml").read_text()).encode()}


def archived(root: Path, folders: Sequence[str], files: Sequence[str] = ()) -> list[str]:
    """Return the files in these folders, without caches and links, and these files; all relative to `root`."""
    ours = [path for folder in folders for path in (root / folder).rglob("*") if path.is_file()]
    names = [path.relative_to(root) for path in ours if not path.is_symlink()]
    return [*map(str, (name for name in names if _LEFT_OUT.isdisjoint(name.parts))), *files]


def _student_project(text: str) -> str:
    for pattern, instead in _PROJECT.items():
        text = re.sub(pattern, instead, text, flags=re.S | re.M)
    return text.rstrip() + "\n"


def digest(cell: NotebookNode) -> str:
    """Return a digest of a cell's code, which `solve` notes where it executes the cell."""
    return hashlib.sha256(cell.source.encode()).hexdigest()[:16]


def outdated(course: Course) -> list[str]:
    """Return a line for each step whose outputs come from other code than its cells', and one if the devices differ.

    The eight steps are read as one book, so one device must have made them all. An optional notebook stands alone.
    """
    notebooks = {step: read_notebook(course.source(step)) for step in course.present}
    devices = {step: notebook.metadata.get(ABOUT, {}).get("device", "none") for step, notebook in notebooks.items()}
    changed = {
        step: [
            str(number)
            for number, cell in enumerate(notebook.cells, 1)
            if cell.cell_type == "code" and cell.metadata.get(ABOUT, {}).get("executed") != digest(cell)
        ]
        for step, notebook in notebooks.items()
    }
    lines = [f"{step}: other code ran in cells {', '.join(cells)}" for step, cells in changed.items() if cells]
    if len({devices[step] for step in devices.keys() & set(STEPS)}) > 1:
        where = "; ".join(f"{step} on {device}" for step, device in devices.items())
        lines.append(f"the steps ran on different devices: {where}")
    return lines


@app.command()
def write() -> None:
    """Make labs/ of the course in the current folder."""
    with one_line_a_fault():
        course = Course.at(".")
        pages = {page: with_facts(page, Path(page).read_text()) for page in PAGES if Path(page).is_file()}
        for page, text in pages.items():
            atomic_write(page, text)
        kept = make_labs(course, Path("labs"))
    print(f"labs/: {', '.join(course.present)}")
    if kept:
        names = ", ".join(path.stem for path in sorted(kept.iterdir()))
        print(f"somebody had worked in {names}; as they were: {kept}/")


@app.command()
def pack(
    strict: Annotated[bool, typer.Option(help="Refuse where solutions/ has outputs of other code.")] = False,
) -> None:
    """Pack the course in the current folder; warn if solutions/ has outputs of other code."""
    target = Path("dist") / f"{BUNDLE}.zip"
    with one_line_a_fault():
        if strict and (old := outdated(Course.at("."))):
            raise InputError(
                f"solutions/ is not as it was executed ({'; '.join(old)}); "
                "execute them again with `make solutions KEEP=1`, or pack without STRICT=1"
            )
        check()
        names = make_release(Path("."), target)
    print(f"{target}: {len(names)} files, {target.stat().st_size / 1e6:.1f} MB")
    published = is_published(repository_address(ROOT))
    print(f"Colab and Kaggle fetch it from {bundle_address(ROOT)}" if published else NOT_PUBLISHED)


@app.command()
def check() -> None:
    """Warn if solutions/ has outputs of other code: students get no outputs, so only a strict `pack` refuses it."""
    if old := outdated(Course.at(".")):
        print("warning: outputs in solutions/ are of other code than their cells; `make solutions KEEP=1` renews them")
        print("\n".join(f"  {line}" for line in old))


if __name__ == "__main__":
    app()
