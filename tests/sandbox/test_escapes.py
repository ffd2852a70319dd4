"""Ways out: a few are held by each sandbox, and reach their goal where there is none: they are no dead attacks."""

import sys
from pathlib import Path

import pytest

from solutions.sandbox import KINDS, trouble
from solutions.sandbox.escapes import ESCAPES
from solutions.sandbox.room import _PASSED, ROOT
from solutions.sandbox.trial import attempt, gpu_inside, outside

WORKS = [kind for kind in KINDS if not trouble(kind)]
BY_NAME = {escape.name: escape for escape in ESCAPES}
A_FEW = [
    "read the hidden checks",
    "write outside the scratch",
    "change a file's mode outside",
    "read through a link",
    "kill another process",
    "kill the owner of a file",
    "read another process's variables",
    "a setuid program gains rights",
    "connect over TCP",
    "a socket by its path outside",
    "a datagram to a socket outside",
    "a full disk at once",
    "a full disk of closed files",
    "memory in closed files",
]
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is a sandbox on Linux only")


@pytest.mark.parametrize("kind", WORKS)
def test_a_few_ways_out_are_held(kind: str) -> None:
    with outside() as there:
        verdicts = [attempt(BY_NAME[name], kind, there) for name in A_FEW]
    assert [verdict for verdict in verdicts if not verdict.held] == []


@pytest.mark.parametrize("name", [*A_FEW, "a fork bomb", "a full disk"])
def test_the_same_ways_lead_out_where_there_is_no_sandbox_or_end_at_a_limit(name: str) -> None:
    with outside() as there:
        verdict = attempt(BY_NAME[name], "none", there)
    assert verdict.held == bool(BY_NAME[name].ended_by), verdict


@pytest.mark.parametrize("kind", WORKS)
def test_cuda_that_cannot_start_inside_says_why(kind: str) -> None:
    if Path("/dev/nvidiactl").exists():
        assert gpu_inside(kind) == ""
    else:
        assert "libcuda" in gpu_inside(kind) or "CUDA's error" in gpu_inside(kind)


def test_what_the_page_counts_is_what_there_is() -> None:
    page = Path(ROOT, "docs", "sandbox.md").read_text()
    assert f"with {len(ESCAPES)} ways out" in page and f"a list of {len(_PASSED)} names" in page
    assert f"with {len(ESCAPES)}\n  ways out" in Path(ROOT, "CHANGELOG.md").read_text()
    assert not any(escape.open_in for escape in ESCAPES), "the page names none that is open"
