"""Step 9's points on functions written otherwise, right and wrong."""

import itertools
import math
from functools import partial
from typing import Any

import numpy as np
import onnxruntime
import pytest

from helpers.checks.missed import Missed
from helpers.checks.points.case import Case
from helpers.checks.points.s09_mixed_precision import layers as held
from helpers.checks.points.s09_mixed_precision import study
from helpers.checks.points.s09_mixed_precision.networks import cache_of, chosen_layers, network
from helpers.checks.probes.student import Student
from helpers.engine.backend import trt
from trtcpu.calibration_cache import parse_cache

Table = dict[str, dict[str, float]]


def case_of(seed: int = 5, **functions: Any) -> Case:
    return Case(Student.in_process(functions), seed)


def searched(table: Table, fp16: float, int8: float, target: float) -> list[str]:
    """Return the smallest set by trying every one, the one that predicts the least first among those of a size."""
    part = {name: (int8**2 - row["kept"] ** 2 + row["alone"] ** 2 - fp16**2) / 2 for name, row in table.items()}
    for number in range(len(part) + 1):
        best = max(itertools.combinations(part, number), key=lambda names: sum(part[name] for name in names))
        if int8**2 - sum(part[name] for name in best) <= target**2 * (1 + 1e-12):
            return sorted(best, key=lambda name: -part[name])
    raise ValueError("none")


@pytest.mark.parametrize("seed", range(3))
def test_a_search_of_all_sets_is_a_right_choice(seed: int) -> None:
    case = case_of(seed, choose_groups=searched)
    assert [point(case) for point in (study.fewest, study.none_needed, study.unreachable)]


def test_the_order_of_the_network_is_not_the_smallest_set() -> None:
    def in_order(table: Table, fp16: float, int8: float, target: float) -> list[str]:
        return list(table)[: len(searched(table, fp16, int8, target))]

    with pytest.raises(Missed, match="largest part first"):
        study.fewest(case_of(choose_groups=in_order))


def test_the_group_with_the_smallest_part_is_needed_too() -> None:
    def all_but_the_last(table: Table, fp16: float, int8: float, target: float) -> list[str]:
        found = searched(table, fp16, int8, target)
        if len(found) == len(table):
            raise ValueError("not enough")
        return found

    with pytest.raises(Missed, match="all groups that help"):
        study.unreachable(case_of(choose_groups=all_but_the_last))


def keep_all(network: Any, config: Any, names: list[str], *, layers_from: int = 0, names_from: int = 0) -> None:
    """A right `keep_in_half`; others look at the layers, or compare the names, from a later one on."""
    layers = {network.get_layer(index).name: network.get_layer(index) for index in range(network.num_layers)}
    layers = dict(list(layers.items())[layers_from:])
    if not set(names[names_from:]) <= layers.keys():
        raise ValueError(f"no such layer among {names}")
    for flag in ("INT8", "FP16", "OBEY_PRECISION_CONSTRAINTS"):
        config.set_flag(getattr(trt.BuilderFlag, flag))
    for layer in layers.values():
        if layer.type == trt.LayerType.CONVOLUTION:
            layer.precision = trt.int8
    for layer in map(layers.get, names):
        layer.precision = trt.float16
        if layer.get_output(0).name != network.get_output(0).name:
            layer.set_output_type(0, trt.float16)


@pytest.mark.parametrize("seed", range(3))
def test_the_first_layer_and_the_first_name_are_looked_at(seed: int) -> None:
    right = case_of(seed, keep_in_half=keep_all)
    assert [point(right) for point in (held.precisions, held.types, held.flags, held.unknown)]
    with pytest.raises(Missed):
        held.precisions(case_of(seed, keep_in_half=partial(keep_all, layers_from=1)))
    with pytest.raises(Missed, match="compare with all names first"):
        held.unknown(case_of(seed, keep_in_half=partial(keep_all, names_from=1)))


def test_a_part_is_the_mean_of_what_goes_and_what_comes() -> None:
    found = study.parts({"a": {"kept": 3.0, "alone": 4.0}}, fp16=1.0, int8=5.0)
    assert found == {"a": pytest.approx(((25 - 9) + (16 - 1)) / 2)}


def test_a_study_that_builds_in_another_order_is_right() -> None:
    def backwards(groups: dict[str, list[str]], build: Any, loss: Any) -> Table:
        every = {name for layers in groups.values() for name in layers}
        rows = {
            name: {"alone": loss(build(every - {*layers})), "kept": loss(build(layers))}
            for name, layers in reversed(groups.items())
        }
        return dict(reversed(rows.items()))

    case = case_of(sensitivity=backwards)
    assert [point(case) for point in (study.kept, study.alone, study.once)]


def test_an_engine_that_is_measured_before_the_next_is_built_and_again_is_dear() -> None:
    def twice(groups: dict[str, list[str]], build: Any, loss: Any) -> Table:
        every = [name for layers in groups.values() for name in layers]
        table = {}
        for name, layers in groups.items():
            engine = build(layers)
            table[name] = {"kept": (loss(engine) + loss(engine)) / 2}
            table[name]["alone"] = loss(build([other for other in every if other not in layers]))
        return table

    with pytest.raises(Missed, match="15 measurements of 10"):
        study.once(case_of(sensitivity=twice))


def test_groups_come_in_no_order_of_the_alphabet() -> None:
    for seed in range(30):
        groups, error = study._known(case_of(seed))
        assert list(groups) != sorted(groups)
        assert len({*error.values()}) == len(error)


def test_a_cache_holds_each_tensors_largest_magnitude() -> None:
    case = case_of()
    model = network(case)
    scales = parse_cache(cache_of(case, model)).scales
    images = case.random("mixed.calibration").standard_normal((2, 3, 224, 224)).astype(np.float32)
    output = onnxruntime.InferenceSession(model).run(None, {"input": images})[0]
    assert math.isclose(127 * scales["output"], np.abs(output).max(), rel_tol=1e-4)
    assert {"input", "conv0", "relu3", "pooled"} <= scales.keys()


def test_two_convolutions_with_their_activations_are_kept() -> None:
    names = chosen_layers(case_of())
    assert len(names) == 4 and {name[:4] for name in names} == {"conv", "relu"}
