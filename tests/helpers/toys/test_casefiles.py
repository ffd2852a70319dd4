"""The case files of step 16: read as they lie there, prepared as torchvision does, made into engines as recorded."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from torchvision import transforms

from helpers.engine.backend import ENGINE
from helpers.tools.outputs import onnx_outputs, relative_error
from helpers.toys.casefiles import (
    CAUSES,
    EDGE,
    NOTHING,
    CaseFile,
    case_files,
    convolution_precisions,
    engine_scores,
    largest_batch,
    pictures,
    prepared,
    tensor_ranges,
)
from trtcpu.errors import InputError, LabError

CASES = Path(__file__).resolve().parents[3] / "datasets" / "cases"


def innocent() -> CaseFile:
    """Return case 05."""
    return next(case for case in case_files("engine") if case.number == "05")


def test_twelve_cases_are_there_and_each_department_has_what_its_examiner_needs() -> None:
    cases = case_files()
    assert [case.number for case in cases] == [f"{number:02d}" for number in range(1, 13)]
    assert {case.department for case in cases} == set(CAUSES)
    for case in cases:
        assert case.story and case.report
        if case.department == "clock":
            assert case.calls.shape[1] == 3 and len(case.calls) > case.report["warmup"]
        else:
            assert case.onnx and case.pictures.shape[1:] == (EDGE, EDGE, 3)
        if case.department == "engine":
            assert case.cache and set(case.build) == {"flags", "layers", "profile"}
        if case.department == "scores":
            assert len(case.labels) == len(case.scores) == len(case.pictures) == case.report["images"]


def test_no_file_of_a_case_names_a_cause() -> None:
    names = [*(cause for found in CAUSES.values() for cause in found), NOTHING]
    for path in CASES.rglob("*"):
        if path.is_file():
            assert not [name for name in names if name.encode() in path.read_bytes()], path


def test_an_unknown_department_is_named_with_the_ones_there_are() -> None:
    with pytest.raises(InputError, match="engine, clock, scores"):
        case_files("traffic")


def test_a_folder_without_cases_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no case"):
        case_files(folder=tmp_path / "none")


def test_pictures_are_prepared_as_torchvision_does_it() -> None:
    images = pictures(3, 5)
    as_torchvision = transforms.Compose(
        [transforms.ToTensor(), transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    )
    expected = np.stack([as_torchvision(image).numpy() for image in images])
    np.testing.assert_allclose(prepared(images), expected, atol=1e-5)


def test_pictures_are_the_same_for_the_same_seed_and_others_for_another() -> None:
    assert np.array_equal(pictures(4, 3), pictures(4, 3)) and not np.array_equal(pictures(4, 3), pictures(5, 3))


def test_ranges_are_those_of_the_input_and_of_what_the_model_gives() -> None:
    case = innocent()
    inputs = prepared(case.pictures)
    ranges = tensor_ranges(case.onnx, inputs)
    assert ranges["input"] == pytest.approx(np.abs(inputs).max())
    assert ranges["output"] == pytest.approx(np.abs(onnx_outputs(case.onnx, inputs)).max())


def test_an_engine_of_a_case_is_what_its_record_says() -> None:
    case = innocent()
    engine = case.engine()
    assert largest_batch(engine) == case.build["profile"][2]
    assert set(convolution_precisions(case, engine).values()) == {"int8"}
    inputs = prepared(case.pictures)[: largest_batch(engine)]
    assert relative_error(engine_scores(engine, inputs), onnx_outputs(case.onnx, inputs)) < 0.1


def test_layers_that_are_held_in_fp32_run_in_it_and_the_others_in_int8() -> None:
    case = innocent()
    first, *others = convolution_precisions(case, case.engine())
    held = replace(case, build={**case.build, "flags": ["INT8"], "layers": {first: "fp32"}})
    found = convolution_precisions(held, held.engine())
    assert found == {first: "fp32", **dict.fromkeys(others, "int8")}


@pytest.mark.skipif(ENGINE != "cpu", reason="TensorRT prints its own reason to stderr")
def test_a_cache_that_knows_no_tensor_gives_no_engine() -> None:
    with pytest.raises(LabError, match="no engine could be built"):
        replace(innocent(), cache=b"TRT-101600-EntropyCalibration2\nelsewhere: 3c826f4d\n").engine()
