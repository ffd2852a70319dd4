"""onnx's own tests of single operators on the CPU engine: each is right, refused with a reason, or a fault.

python -m tests.others.onnx_nodes --page docs/onnx-operators.md

The tests come with the package onnx. Each runs in a process of its own, so that one that ends its process is counted
and the next one runs. A test that needs what TensorRT has no type for (text, sequences, FP8) is refused too.
"""

import argparse
import multiprocessing.connection
import re
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests
from tqdm import tqdm

from tests.others.engine import RefusedError, built, messages, run, shapes_of

EXCEPTIONS = {
    "bernoulli": "random: the specification fixes no values",
    "multinomial": "random: the specification fixes no values",
    "scales_linear_align_corners": "the corner of an output whose size is not whole: ONNX Runtime differs from it too",
    "scales_cubic_align_corners": "the corner of an output whose size is not whole: ONNX Runtime differs from it too",
}
"""Tests by a part of their names that nothing can pass or fail, and why."""
FAULTS = ("wrong", "not loaded", "failed", "crashed")
SEVERAL = "graphs of several nodes"
NO_ARRAY = "an input or output that is no NumPy array: text, a sequence, an optional, a type that NumPy lacks"
PLAIN = {
    "No importer registered for op": "NVIDIA's parser has no importer for it",
    "Unsupported data type": "a type that TensorRT does not have, such as INT16 or UINT64",
    "the CPU engine has no ": "the CPU engine does not have it; TensorRT on a GPU does",
    r"only the first \d+ (in|out)puts": "more inputs or outputs than the importer supports",
    " must (not )?be |Unsupported padding mode|only supported for|zero point|training_mode": (
        "a value of an attribute or an input that is not supported; the error names it"
    ),
    r"OpenVINO|ReduceLogicalOr|dynamic rank|Scan_\d+|Shapes .* are not|split number|same element type": (
        "OpenVINO has no kernel for it, or cannot read the graph"
    ),
    "differs from it too|random": "left out: random, or an expected output that ONNX Runtime does not give either",
}
"""What a reason holds, and the words for it on the page. A test with the first one is listed under no other."""
_BFLOAT16_ERROR = 2**-6  # two units in the last place
_SECONDS = 120
_LONGEST = 160  # characters of a reason


class Outcome(NamedTuple):
    """How one test ended."""

    name: str
    operator: str
    kind: str
    reason: str = ""


def outcome(case: TestCase) -> tuple[str, str]:
    """Return how a test ends here, and why."""
    if reason := next((why for part, why in EXCEPTIONS.items() if part in case.name), ""):
        return "exempt", reason
    try:
        engine = None
        for feeds, expected in case.data_sets:
            if any(not hasattr(one, "dtype") or one.dtype.kind in "OU" for one in (*feeds, *expected)):
                return "refused", NO_ARRAY
            shapes = shapes_of(case.model, feeds)
            engine = engine or built(case.model.SerializeToString(), shapes)
            if engine is None:
                return "not loaded", "the plan cannot be deserialized"
            found = run(engine, dict(zip(shapes, feeds, strict=False)))
            for value, wanted in zip(case.model.graph.output, expected, strict=True):
                if difference := _difference(found[value.name], wanted, case):
                    return "wrong", f"{value.name}: {difference}"
    except RefusedError as error:
        return "refused", str(error)
    except Exception as error:  # what a caller would see as a traceback
        return "failed", f"{type(error).__name__}: {error}"
    return "right", ""


def _difference(found: np.ndarray, wanted: np.ndarray, case: TestCase) -> str:
    if found.shape != wanted.shape:
        return f"shape {found.shape}, expected {wanted.shape}"
    brain = wanted.dtype.name == "bfloat16"
    rtol = max(case.rtol, _BFLOAT16_ERROR) if brain else case.rtol
    wanted = wanted.astype(np.float32) if brain or wanted.dtype == np.float64 else wanted
    if np.allclose(found, wanted, rtol=rtol, atol=case.atol, equal_nan=wanted.dtype.kind in "fc"):
        return ""
    both = np.stack([found, wanted]).astype(np.float64).reshape(2, -1)
    return f"found {both[0, :4].tolist()}, expected {both[1, :4].tolist()}"


def _report(case: TestCase, pipe: multiprocessing.connection.Connection) -> None:
    pipe.send(outcome(case))


def in_a_process(case: TestCase) -> Outcome:
    """Run a test where the end of its process is only its own."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_report, args=(case, theirs))
    process.start()
    theirs.close()
    try:
        found = ours.recv() if ours.poll(_SECONDS) else ("failed", f"no end after {_SECONDS} s")
    except EOFError:
        process.join()
        found = "crashed", f"the process ended with {process.exitcode}"
    process.kill()
    process.join()
    return Outcome(case.name, _operator(case), *found)


def _operator(case: TestCase) -> str:
    """Return the operator that a test is about; a function that onnx writes out has several."""
    nodes = case.model.graph.node
    return f"`{nodes[0].op_type}`" if len(nodes) == 1 else SEVERAL


def reasons(one: Outcome) -> set[str]:
    """Return why a test was not right, in words that other operators share."""
    if one.kind not in ("refused", "exempt"):
        return {f"**{one.kind}**: {one.reason}"}
    operator = one.operator.strip("`")
    found = set()
    for said in messages(one.reason):
        plain = next((words for pattern, words in PLAIN.items() if re.search(pattern, said)), "")
        found.add(plain or re.sub(rf"\b{operator}(?:'s| : )? ?|, found .*| Operation name.*", "", said))
    first = next(iter(PLAIN.values()))
    return {first} if first in found else found


def page(outcomes: list[Outcome]) -> Iterator[str]:
    """Give the lines of the page: which operators are always right, then why tests were refused."""
    counts = Counter(one.kind for one in outcomes)
    names = {one.operator for one in outcomes} - {one.operator for one in outcomes if one.kind != "right"}
    yield "# onnx's operator tests on the CPU engine"
    yield ""
    yield f"<!-- made by make onnx-tests --> The {len(outcomes):,} tests of onnx {onnx.__version__}, one process each:"
    yield f"{', '.join(f'{counts[kind]:,} {kind}' for kind in ('right', 'refused', *FAULTS, 'exempt'))}."
    yield ""
    yield "Right in every test:"
    yield from textwrap.wrap(f"{', '.join(sorted(names, key=_by_name))}.", 130, break_on_hyphens=False)
    yield ""
    yield "The others, by reason. A number says how many of the operator's tests have it; without one, all have it."
    yield ""
    yield "| reason | operators |"
    yield "|---|---|"
    tests = Counter(one.operator for one in outcomes)
    by_reason: dict[str, Counter[str]] = defaultdict(Counter)
    for one in outcomes:
        for reason in reasons(one) if one.kind != "right" else ():
            by_reason[reason.replace("|", "\\|").replace("\n", " ")[:_LONGEST]][one.operator] += 1
    for reason, found in sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0])):
        cells = [
            name if found[name] == tests[name] else f"{name} ({found[name]} of {tests[name]})"
            for name in sorted(found, key=_by_name)
        ]
        yield f"| {reason} | {', '.join(cells)} |"


def _by_name(operator: str) -> str:
    return operator.strip("`").lower()


def main() -> int:
    """Run all tests, or those whose names hold a text; write the page. Exit with 1 where there are faults."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--page", type=Path)
    options.add_argument("--only", default="", help="a part of the tests' names")
    arguments = options.parse_args()
    cases = [case for case in load_model_tests(kind="node") if arguments.only in case.name]
    with ThreadPoolExecutor(2) as threads:
        outcomes = list(tqdm(threads.map(in_a_process, cases), total=len(cases), disable=None))
    faults = [one for one in outcomes if one.kind in FAULTS]
    for one in faults:
        print(f"{one.kind}: {one.name} ({one.operator}): {one.reason[:300]}")
    lines = list(page(outcomes))
    print(lines[3])
    if arguments.page and not arguments.only:
        arguments.page.write_text("\n".join(lines) + "\n")
    return 1 if faults or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
