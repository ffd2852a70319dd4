"""Stages: done once, done again when anything they depend on changed, safe to stop at any moment."""

import contextlib
import json
from pathlib import Path

import pytest

from helpers.tools.files import atomic_path, atomic_write
from trtcpu.errors import InputError
from trtlab.running.stages import Stage, exclusive, run_stages

VERSIONS = {"engine": "1"}


class Chain:
    """Three stages, each appending its letter to the file of the one before; counts the calls."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.calls, self.fail_in = folder, [], ""

    def stages(self, options: dict | None = None) -> list[Stage]:
        return [
            Stage("a", "first", lambda report: self.write("a", ""), ("a.txt",), (), options or {}),
            Stage("b", "second", lambda report: self.write("b", "a.txt"), ("b.txt",), ("a.txt",)),
            Stage("c", "third", lambda report: self.write("c", "b.txt"), ("c.txt",), ("b.txt",)),
        ]

    def write(self, name: str, source: str) -> None:
        self.calls.append(name)
        before = (self.folder / source).read_text() if source else ""
        with atomic_path(self.folder / f"{name}.txt") as temporary:
            temporary.write_text(before + name)
            if self.fail_in == name:
                raise KeyboardInterrupt

    def run(self, options: dict | None = None, versions: dict[str, str] = VERSIONS) -> str:
        self.calls = []
        list(run_stages(self.stages(options), self.folder, versions, contextlib.nullcontext))
        return "".join(self.calls)

    def stopped_in(self, name: str, options: dict | None = None) -> None:
        self.fail_in = name
        with pytest.raises(KeyboardInterrupt):
            self.run(options)
        self.fail_in = ""


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path)


@pytest.mark.parametrize(
    ("second", "again"),
    [
        ({}, ""),
        ({"options": {"size": 2}}, "a"),  # a.txt comes out the same, so what depends on it is still right
        ({"versions": {"engine": "2"}}, "abc"),
    ],
)
def test_a_second_run_does_again_only_what_a_change_concerns(chain, second, again):
    assert chain.run() == "abc"
    assert chain.run(**second) == again
    assert (chain.folder / "c.txt").read_text() == "abc"
    stages = json.loads((chain.folder / ".state.json").read_text())["stages"]
    assert set(stages) == {"a", "b", "c"} and all(0 <= stage["seconds"] < 5 for stage in stages.values())


def test_a_run_interrupted_in_the_middle_of_a_stage_goes_on_there(chain):
    chain.stopped_in("b")
    assert sorted(path.name for path in chain.folder.iterdir()) == [".state.json", "a.txt"], "nothing half-written"
    assert chain.run() == "bc"


def test_a_stage_interrupted_while_it_is_redone_counts_as_not_done(chain):
    chain.run()
    chain.stopped_in("a", {"size": 2})
    assert chain.run()[0] == "a"


DAMAGED = ("", "{", "[]", '{"stages": 3}', '{"stages": {"a": 5}}', '{"stages": {"a": {}}}')


@pytest.mark.parametrize(
    ("file", "content", "again"),
    [("b.txt", None, "b"), ("b.txt", "other", "b"), *((".state.json", content, "abc") for content in DAMAGED)],
)
def test_what_is_gone_or_was_changed_is_made_again_and_a_damaged_record_means_that_nothing_is_done(
    chain, file, content, again
):
    chain.run()
    if content is None:
        (chain.folder / file).unlink()
    else:
        (chain.folder / file).write_text(content)
    assert chain.run() == again


def test_a_user_sees_each_stage_and_its_progress(tmp_path):
    shown = []

    @contextlib.contextmanager
    def working(title):
        shown.append(f"start {title}")
        yield shown.append
        shown.append("end")

    stages = [Stage("a", "first", lambda report: (report("half"), atomic_write(tmp_path / "a", "x"))[0], ("a",))]
    done = [seconds is None for _ in range(2) for _, seconds in run_stages(stages, tmp_path, VERSIONS, working)]
    assert shown == ["start first", "half", "end"] and done == [False, True]


def test_two_runs_into_one_folder_are_refused(tmp_path):
    with exclusive(tmp_path), pytest.raises(InputError, match="another run is writing"), exclusive(tmp_path):
        pass
    with exclusive(tmp_path):
        pass


def test_the_lock_goes_with_the_run_and_a_folder_of_nothing_with_a_run_that_fails(tmp_path):
    with pytest.raises(RuntimeError), exclusive(tmp_path / "new" / "run"):
        assert (tmp_path / "new" / "run" / ".lock").is_file()
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RuntimeError), exclusive(tmp_path / "run"):
        (tmp_path / "run" / "half.json").write_text("{}")
        raise RuntimeError
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["half.json"]


def test_a_file_in_the_place_of_the_folder_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write to"), exclusive(tmp_path / "file"):
        pass
