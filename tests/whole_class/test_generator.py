"""The class of `make class-test`: the same one each time, and predictable."""

from helpers.course.steps import CELLS, STEPS
from solutions.checks.core.asked import points_of
from tests.whole_class.generator import STUDENTS, generated


def test_the_class_of_a_seed_is_always_the_same_and_three_hand_in_everything() -> None:
    students = generated()
    assert students == generated() and len(students) == STUDENTS and students != generated(seed=16)
    assert sum(list(student.steps) == list(STEPS) for student in students) == 3
    handed_in = [tuple(entry.title for entry in student.steps.values()) for student in students]
    assert len(set(handed_in)) < STUDENTS  # some are equal, as in every class


def test_points_are_foretold_for_every_cell_and_never_more_than_it_is_worth() -> None:
    for student in generated():
        declared = {name: points_of(name) for name, about in CELLS.items() if about.step in student.steps}
        worth = {name: sum(point.worth for point in points) for name, points in declared.items() if points}
        assert student.points.keys() == worth.keys()
        assert all(points <= worth[name] + 1e-9 for name, points in student.points.items())
        full = [name for name in worth if student.steps[CELLS[name].step].kind in ("solution", "right")]
        assert all(abs(student.points[name] - worth[name]) < 1e-9 for name in full)
