"""grades.csv from the records alone: without the gradebook, without running anything."""

from helpers.course.steps import CELLS
from solutions.grading.course import Course
from solutions.grading.grade import ClassGrades
from solutions.grading.grades import StudentGrades, summed, worth_of
from solutions.grading.step_record import GRADED, REFUSED, StepRecord, grades_folder, read_notes
from solutions.grading.submissions import check_files, check_notebook
from trtcpu.errors import InputError


def rebuilt(course: Course) -> ClassGrades:
    """Return everybody's grades from autograded/<student>/grades/.

    A step is ungraded, with a note, where it has no record that can be used: it was handed in, after a refusal too, and
    not reached, or it was being graded when grading stopped.

    Raises:
        InputError: there are no records.
    """
    steps = course.graded
    folders = sorted(found.parent for found in course.autograded("").glob("*/grades") if found.is_dir())
    if not folders:
        raise InputError(f"no records to rebuild grades from: expected {course.autograded('<student>')}/grades/")
    return ClassGrades(steps, worth_of(course, steps), [_student(course, folder.name, steps) for folder in folders])


def _student(course: Course, student: str, steps: list[str]) -> StudentGrades:
    folder, notes = course.autograded(student), []
    records: dict[str, StepRecord] = {}
    ungraded = []
    for step in steps:
        if not (grades_folder(folder) / f"{step}.json").exists():
            if course.submitted(student, step).is_file():
                ungraded.append(step)
                notes.append(f"{step}: no points: it was handed in and is not graded yet; grade the step")
            continue
        try:
            record = StepRecord.read(folder, student, step)
        except InputError as error:
            ungraded.append(step)
            notes.append(f"{step}: no points: {error}")
            continue
        if record.state == GRADED:
            record.cells = {name: cell for name, cell in record.cells.items() if name in CELLS}
            records[step] = record
        elif record.state != REFUSED:
            ungraded.append(step)
            notes.append(f"{step}: no points: it was being graded when grading stopped; grade the step again")
        elif _can_be_graded(course, student, step):
            ungraded.append(step)
            notes.append(f"{step}: no points: it was refused, and what is handed in now is not graded yet")
    try:
        notes = read_notes(folder) + notes
    except InputError as error:
        notes.append(str(error))
    grades = summed(student, steps, records)
    grades.notes, grades.ungraded = notes, ungraded
    return grades


def _can_be_graded(course: Course, student: str, step: str) -> bool:
    if not course.submitted(student, step).is_file():
        return False
    try:
        check_files(course, student, step)
        check_notebook(course, student, step)
    except InputError:
        return False
    return True
