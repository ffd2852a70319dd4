"""Links in the folders that grading writes to: no file of ours may be written or removed through one."""

from pathlib import Path


def remove_links(root: Path, student: str, step: str) -> list[str]:
    """Remove each link that lies where a student's graded step is written; return a line for each.

    The course's own folders (autograded/, feedback/) may be links: who set up the course made them.
    """
    own = root / "autograded" / student
    page = root / "feedback" / student
    places = [own, *(own / name for name in ("records", "artifacts", "grades", step, f"{step}.log"))]
    places += [own / step / f"{step}.ipynb", own / "grades" / f"{step}.json"]
    places += [page, page / step, page / step / f"{step}.html"]
    removed = []
    for place in places:
        if place.is_symlink():
            place.unlink()
            removed.append(f"{place.relative_to(root)} was a link, which was not followed: removed")
    return removed
