"""`python -m tests.tools.charts`: executes the solution notebooks and names the labels in their charts that overlap.

Each chart is compared as its cell draws it, with the numbers of this machine: tests/overlaps.py says what is compared.
TRT_LAB_MODEL=resnet18 and TRT_LAB_QUICK=1 make it faster. The executed notebooks are in results/solutions/.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

from matplotlib.figure import Figure

from solutions.grading.course import Course
from solutions.grading.layout import ROOT
from solutions.grading.solve import RESULTS, solve
from tests.overlaps import EDGE, overlaps
from trtcpu.errors import LabError

_VARIABLE = "CHARTS_WITH_OVERLAPS"
_STARTUP = "from tests.tools.charts import watch\nwatch()\n"


def watch() -> None:
    """In a kernel: look at each figure that a cell shows or saves as an artifact; note what overlaps."""
    from IPython.core import pylabtools

    show, save = pylabtools.print_figure, Figure.savefig

    def look(figure: Figure, *arguments: object, **options: object) -> object:
        _note(figure, [pair for pair in overlaps(figure) if EDGE not in pair])  # Jupyter shows what leaves a figure
        return show(figure, *arguments, **options)

    def look_and_save(figure: Figure, target: object, *arguments: object, **options: object) -> None:
        if isinstance(target, str | Path) and Path(target).parent.name == "artifacts":
            _note(figure, overlaps(figure))
        save(figure, target, *arguments, **options)

    pylabtools.print_figure, Figure.savefig = look, look_and_save


def _note(figure: Figure, pairs: list[tuple[str, str]]) -> None:
    found = {"step": Path.cwd().name, "axes": [axes.get_xlabel() for axes in figure.axes], "pairs": pairs}
    with Path(os.environ[_VARIABLE]).open("a") as file:
        file.write(json.dumps(found) + "\n")


def main(steps: list[str]) -> None:
    """Execute these steps, all where none is named, and end with an error where labels overlap."""
    with tempfile.TemporaryDirectory() as folder:
        startup = Path(folder) / "ipython" / "profile_default" / "startup" / "charts.py"
        startup.parent.mkdir(parents=True)
        startup.write_text(_STARTUP)
        notes = Path(folder) / "charts.jsonl"
        notes.touch()
        search = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        os.environ |= {"IPYTHONDIR": str(startup.parents[2]), _VARIABLE: str(notes), "PYTHONPATH": search}
        course = Course.at(".")
        failed = ""
        try:
            solve(course, [name for name in course.present if not steps or name in steps], RESULTS, print)
        except LabError as error:
            failed = f"error: {error}"
        charts = [json.loads(line) for line in notes.read_text().splitlines()]
    wrong = [f"{chart['step']}, chart of {chart['axes']}: {chart['pairs']}" for chart in charts if chart["pairs"]]
    print(f"{len(charts)} charts, {len(wrong)} with labels that overlap", *wrong, sep="\n")
    if failed or wrong or not charts:
        sys.exit(failed or 1)


if __name__ == "__main__":
    main(sys.argv[1:])
