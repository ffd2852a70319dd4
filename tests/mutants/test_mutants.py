"""Mutants, sample, equivalents and rewrites themselves; nothing is judged here. `make mutants` judges."""

import textwrap

import pytest

from helpers.course.steps import CELLS, GRADED
from tests.mutants.equivalent import equivalents
from tests.mutants.judging import Decision, rounds
from tests.mutants.prose import solution_lines
from tests.mutants.results import figures, good_enough, status
from tests.mutants.rewrites import all_rewrites
from tests.mutants.sample import stratified
from tests.mutants.source import OPERATORS, Mutant, all_mutants, mutants_of, normal, todo_cells

MUTANTS = all_mutants()
REWRITES = all_rewrites()


def _of(operator: str, body: str) -> list[str]:
    """Return what an operator makes of a function's body: the added lines of each mutant."""
    inside = textwrap.indent(f"### BEGIN SOLUTION\n{textwrap.dedent(body).strip()}\n### END SOLUTION", "    ")
    source = f'def task(a, b):\n    """Say what to do, 1 < 2."""\n{inside}\n'
    chosen = [one for one in OPERATORS if one.name == operator]
    return [mutant.added for mutant in mutants_of("01_export", "task", source, chosen)]


@pytest.mark.parametrize(
    ("operator", "body", "expected"),
    [
        ("number", "return a[1]", ["return a[2]"]),
        ("one_less", "return a[1]", ["return a[0]"]),
        ("swap_op", "return a < b", ["return a <= b"]),
        ("swap_op", "return a / b", ["return a * b"]),
        ("integer_division", "return a / b", ["return a // b"]),
        ("drop_statement", "a.run()\nreturn b", ["pass"]),
        ("drop_release", "a.free()\na.run()\nreturn b", ["pass"]),
        ("swallow_error", "if a:\n    raise ValueError(a)\nreturn b", ["pass", "return None"]),
        ("missing_return", "return a", ["a"]),
        ("swap_arguments", "return f(a, b)", ["return f(b, a)"]),
        ("swap_elements", "return a, b", ["return b, a"]),
        ("negate_condition", "while a < b:\n    a.run()", ["while not (a < b):"]),
        ("unordered", "return sorted(a)", ["return a"]),
        ("missing_copy", "return a.copy()", ["return a"]),
        ("missing_copy", "return np.copy(a)", ["return a"]),
        ("missing_conversion", "return np.ascontiguousarray(a)", ["return a"]),
        ("missing_link", "return a.convert('RGB')", ["return a"]),
        ("sibling_call", "return np.mean(a)", ["return np.median(a)"]),
        ("whole_slice", "return a[:2]", ["return a"]),
        ("shorter_loop", "for x in a:\n    b(x)", ["for x in list(a)[1:]:", "for x in list(a)[:-1]:"]),
        ("plain_with", "with a as b:\n    b.run()", ["if True:\nb = (a).__enter__()"]),
        ("one_side", "return a * 1e3", ["return (a)", "return (1e3)"]),
        ("other_name", "a(trt.BuilderFlag.FP16)", ["a(trt.BuilderFlag.TF32)", "a(trt.BuilderFlag.INT8)"]),
        ("other_name", "return np.float32(a)", ["return np.float64(a)", "return np.float16(a)"]),
        ("other_number", "return np.percentile(a, 95)", ["return np.percentile(a, 99)", "return np.percentile(a, 90)"]),
        ("sample_deviation", "return np.std(a)", ["return np.std(a, ddof = 1)"]),
        ("shared_buffer", "return a.astype(b)", ["return a.astype(b, copy = False)"]),
        ("channel_order", "return np.asarray(a)", ["return np.asarray(a)[..., ::-1]"]),
        ("context_per_call", "self.context.run(a)", ["self.engine.create_execution_context().run(a)"]),
        ("early_release", "a.x()\na.y()\na.synchronize()", ["a.synchronize()"]),
    ],
)  # fmt: skip
def test_an_operator_makes_the_fault_that_it_is_named_after(operator: str, body: str, expected: list[str]) -> None:
    assert _of(operator, body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "raise ValueError(f'a {a} of 1', 2)",
        "axes.grid(alpha=0.3)",
        "axes.plot(a, b, color='red', linewidth=2, label='two words')",
        "return f'Some {a} text, 5 of it'",
    ],
)
def test_prose_and_looks_are_not_mutated(body: str) -> None:
    inside = [name for name in ("number", "one_less", "string", "other_string") if _of(name, body)]
    assert inside == []


@pytest.mark.parametrize(
    ("operator", "body"),
    [
        ("swap_elements", "if a in (1, 2) or isinstance(b, (int, float)):\n    a.run()"),
        ("swap_elements", "try:\n    a.run()\nexcept (ValueError, KeyError):\n    raise"),
        ("swap_arguments", "return max(a, b)"),
        ("name", "return zip(a, b, strict=True)"),
        ("string", "return {0: 'batch'}"),
        ("plain_with", "with warnings.catch_warnings():\n    a.run()"),
        ("drop_statement", "warnings.simplefilter('ignore')"),
        ("missing_conversion", "return Path(onnx_path)"),
        ("missing_conversion", "return str(path)"),
        ("missing_return", "return None"),
    ],
)
def test_what_is_no_fault_is_no_mutant(operator: str, body: str) -> None:
    assert _of(operator, body) == []


def test_what_stands_beside_it_is_mutated() -> None:
    assert _of("number", "return {0: 'batch'}") == ["return {1: 'batch'}"]
    assert _of("drop_element", "return a in (1, 2)") == ["return a in ((2,))", "return a in ((1, ))"]
    assert _of("drop_statement", "with warnings.catch_warnings():\n    a.run()") == ["pass"]
    assert _of("missing_conversion", "return Path(a)") == ["return a"]


def test_every_operator_is_tried_on_a_solution_or_on_a_small_source() -> None:
    unused = {operator.name for operator in OPERATORS} - {mutant.operator for mutant in MUTANTS}
    assert unused <= {"dict_arguments", "missing_copy", "plain_with"}


def test_given_code_is_not_mutated() -> None:
    for step in GRADED:
        for cell, source in todo_cells(step).items():
            inside = solution_lines(source)
            written = {line.strip() for number, line in enumerate(source.splitlines(), 1) if number in inside}
            for mutant in (one for one in MUTANTS if (one.step, one.cell) == (step, cell)):
                assert set(mutant.removed.splitlines()) <= written, mutant.id


def test_mutants_are_programs_that_differ_from_the_solution_and_from_each_other() -> None:
    mutants = [mutant for mutant in MUTANTS if mutant.step == "01_export"]
    trees = {normal(mutant.code) for mutant in mutants}
    assert len(trees | {normal(source) for source in todo_cells("01_export").values()}) == len(mutants) + 2


def test_ids_are_unique_and_survive_an_edit_elsewhere() -> None:
    assert len({mutant.id for mutant in MUTANTS}) == len(MUTANTS)
    source = todo_cells("07_accuracy")["evaluate_accuracy_todo"]
    edited = source.replace("right1 = right5 = seen = 0", "right1 = right5 = seen = 0\n    more = len(val_loader)")
    before = {mutant.id for mutant in mutants_of("07_accuracy", "evaluate_accuracy_todo", source)}
    assert before < {mutant.id for mutant in mutants_of("07_accuracy", "evaluate_accuracy_todo", edited)}


def test_the_sample_has_every_step_and_operator_and_depends_on_the_seed_only() -> None:
    sample = stratified(MUTANTS, 500, seed=0)
    strata = {(mutant.step, mutant.operator) for mutant in MUTANTS}
    assert len(sample) == 500 and {(mutant.step, mutant.operator) for mutant in sample} == strata
    assert sample == stratified(MUTANTS, 500, seed=0) != stratified(MUTANTS, 500, seed=1)
    share = {step: sum(one.step == step for one in MUTANTS) / len(MUTANTS) for step in GRADED}
    assert all(sum(one.step == step for one in sample) >= 100 * share[step] for step in GRADED)


@pytest.mark.parametrize("rule", equivalents(), ids=lambda rule: rule.reason[:40])
def test_every_rule_of_equivalents_matches_a_mutant(rule) -> None:
    assert any(rule.matches(mutant) for mutant in MUTANTS)


def test_few_are_called_equivalent() -> None:
    listed = sum(any(rule.matches(mutant) for rule in equivalents()) for mutant in MUTANTS)
    assert listed <= 0.1 * len(MUTANTS)


@pytest.mark.parametrize("step", GRADED)
def test_every_rewrite_is_a_program_other_than_the_solution(step: str) -> None:
    rewrites = [rewrite for rewrite in REWRITES if rewrite.step == step]
    assert {rewrite.cell for rewrite in rewrites} == set(todo_cells(step))
    for rewrite in rewrites:
        other = normal(rewrite.code) != normal(todo_cells(step)[rewrite.cell])
        assert other or rewrite.name.endswith("comments_dropped")


def test_every_name_of_a_notebook_is_a_local_name_somewhere() -> None:
    taken = [one.code for one in REWRITES if one.cell == "evaluate_accuracy_todo" and "to_the_notebooks" in one.name]
    assert all(
        any(f"{name} = " in code for code in taken)
        for name in ("engine_name", "accuracy_table", "DEVICE", "class_given")
    )


def test_every_todo_cell_is_judged_by_the_nearest_test_cell_first_and_by_timed_ones_last() -> None:
    for step in GRADED:
        for cell in todo_cells(step):
            parts = rounds(step, cell)
            assert len(parts[0]) == 1 and all(CELLS[name].step == step for part in parts for name in part)
    assert rounds("04_int8", "Int8EntropyCalibrator") == [
        ("calibrator",),
        ("int8_engine", "int8_calibration"),
        ("int8_speed",),
    ]


def test_figures_count_per_step_and_ask_for_the_shares() -> None:
    mutants = [
        Mutant("07_accuracy", "evaluate_accuracy_todo", "number", f"{number}", "", 0, "") for number in range(100)
    ]
    decisions = {mutant.id: Decision("", lost=["accuracy.top1"]) for mutant in mutants[:96]}
    decisions |= {
        mutants[96].id: Decision("", died="no answer within 30 s"),
        mutants[97].id: Decision("", failed=["a"]),
    }
    found = figures(mutants, [], decisions, {})
    counts = {"mutants": 100, "killed": 97, "equivalent": 0, "survived": 1, "undecided": 2, "killed_share": 0.9898}
    assert found["steps"]["07_accuracy"] == found["all"] == counts
    assert good_enough(found) and status(mutants[97], decisions[mutants[97].id]) == "survived"
    assert not good_enough(figures(mutants[95:], [], decisions, {}))
