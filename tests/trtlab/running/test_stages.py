"""Stages: done once, done again when anything they depend on changed, safe to stop at any moment."""

import json
from pathlib import Path

import pytest

from helpers.tools.files import atomic_path, atomic_write
from trtcpu.errors import InputError
from trtlab.running.stages import Stage, exclusive, run_stages

VERSIONS = {"engine": "1"}


class Watcher:
    """Keeps what a user would have seen."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def started(self, stage: Stage) -> None:
        self.lines.append(f"start {stage.name}")

    def progressed(self, stage: Stage, text: str) -> None:
        self.lines.append(f"{stage.name}: {text}")

    def ended(self, stage: Stage, seconds: float | None) -> None:
        self.lines.append(f"{'skip' if seconds is None else 'end'} {stage.name}")


class Chain:
    """Three stages, each appending its letter to the file of the one before; counts the calls."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.calls, self.fail_in, self.error = folder, [], "", KeyboardInterrupt()

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
                raise self.error

    def run(self, options: dict | None = None, versions: dict[str, str] = VERSIONS) -> list[str]:
        self.calls = []
        run_stages(self.stages(options), self.folder, versions, Watcher())
        return self.calls


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path)


def test_a_second_run_does_nothing_again(chain):
    assert chain.run() == ["a", "b", "c"]
    assert chain.run() == []
    assert (chain.folder / "c.txt").read_text() == "abc"


def test_a_run_interrupted_in_the_middle_of_a_stage_goes_on_there(chain):
    chain.fail_in = "b"
    with pytest.raises(KeyboardInterrupt):
        chain.run()
    assert sorted(path.name for path in chain.folder.iterdir()) == [".state.json", "a.txt"], "nothing half-written"
    chain.fail_in = ""
    assert chain.run() == ["b", "c"]


def test_a_run_interrupted_after_a_stage_goes_on_with_the_next(chain):
    run_stages(chain.stages()[:2], chain.folder, VERSIONS, Watcher())
    assert chain.run() == ["c"]


def test_a_stage_interrupted_while_it_is_redone_counts_as_not_done(chain):
    chain.run()
    chain.fail_in = "a"
    with pytest.raises(KeyboardInterrupt):
        chain.run({"size": 2})
    chain.fail_in = ""
    assert chain.run()[0] == "a"


def test_a_changed_option_redoes_the_stage_and_leaves_alone_what_stays_the_same(chain):
    chain.run({"size": 1})
    assert chain.run({"size": 2}) == ["a"], "a.txt came out the same, so what depends on it is still right"


def test_a_new_engine_version_redoes_everything(chain):
    chain.run()
    assert chain.run(versions={"engine": "2"}) == ["a", "b", "c"]


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_text("other")])
def test_an_output_that_is_gone_or_was_changed_is_made_again(chain, damage):
    chain.run()
    damage(chain.folder / "b.txt")
    assert chain.run() == ["b"]


@pytest.mark.parametrize("state", ["", "{", "[]", '{"stages": 3}', '{"stages": {"a": 5}}', '{"stages": {"a": {}}}'])
def test_a_damaged_record_means_that_nothing_is_done(chain, state):
    chain.run()
    (chain.folder / ".state.json").write_text(state)
    assert chain.run() == ["a", "b", "c"]


def test_a_user_sees_each_stage_and_its_progress(tmp_path):
    watcher = Watcher()
    stages = [Stage("a", "first", lambda report: (report("half"), atomic_write(tmp_path / "a", "x"))[0], ("a",))]
    run_stages(stages, tmp_path, VERSIONS, watcher)
    run_stages(stages, tmp_path, VERSIONS, watcher)
    assert watcher.lines == ["start a", "a: half", "end a", "skip a"]


def test_the_record_keeps_the_seconds_of_the_work(chain):
    chain.run()
    stages = json.loads((chain.folder / ".state.json").read_text())["stages"]
    assert set(stages) == {"a", "b", "c"} and all(0 <= stage["seconds"] < 5 for stage in stages.values())


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
