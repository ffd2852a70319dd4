"""Control groups: what memory is left in ours, and what is written where the kernel reads limits."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from solutions.sandbox import Limits, groups
from solutions.sandbox.groups import Group, free_memory

MIB = 1 << 20


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all groups; this process is in user/session, of version 2, and in /slurm/job/step of version 1."""
    (tmp_path / "own").write_text("9:name=systemd:/\n7:cpu,memory:/slurm/job/step\n0::/user/session\n")
    monkeypatch.setattr(groups, "_OWN", tmp_path / "own")
    monkeypatch.setattr(groups, "_ROOT", tmp_path / "groups")
    monkeypatch.setattr(groups.psutil, "virtual_memory", lambda: SimpleNamespace(available=5000))
    (tmp_path / "groups" / "user" / "session").mkdir(parents=True)
    return tmp_path / "groups"


@pytest.mark.parametrize(
    "folder, names, prefix",
    [
        ("user", ("memory.max", "memory.current"), ""),
        ("memory/slurm/job", ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_"),
    ],
    ids=["version 2", "version 1"],
)
def test_what_is_left_in_a_container_is_seen_with_what_its_kernel_would_give_back(
    root: Path, folder: str, names: tuple[str, str], prefix: str
) -> None:
    (root / "user" / "session" / "memory.max").write_text("max\n")
    assert free_memory() == 5000
    (root / folder).mkdir(parents=True, exist_ok=True)
    for name, number in zip(names, (1000, 900), strict=True):
        (root / folder / name).write_text(f"{number}\n")
    stat = f"anon 500\n{prefix}inactive_file 200\n{prefix}active_file 100\nslab_unreclaimable 7\n"
    (root / folder / "memory.stat").write_text(stat)
    assert free_memory() == 400


def test_a_group_is_made_in_the_nearest_that_has_limits_to_give(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Path.mkdir

    def mkdir(path: Path, *given: object, **named: object) -> None:  # as the kernel does, which fills it
        made(path, *given, **named)
        has = ("memory.max", "memory.oom.group", "pids.max") if path.parent == root / "user" else ()
        for name in ("cgroup.procs", "cgroup.kill", *has):
            (path / name).touch()

    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(Path, "rmdir", lambda path: [file.unlink() for file in path.iterdir()])
    group = Group.made(Limits(memory_bytes=64 * MIB))
    (folder,) = (root / "user").glob("trt-lab-*")
    written = {name: (folder / name).read_text() for name in ("memory.max", "memory.oom.group", "pids.max")}
    assert written == {"memory.max": str(64 * MIB), "memory.oom.group": "1", "pids.max": "4096"}
    group.take([7])
    assert (folder / "cgroup.procs").read_text() == "7" and not group.out_of_memory
    (folder / "memory.events").write_text("low 0\noom 3\noom_kill 1\n")
    assert group.out_of_memory
    group.close()
    assert list(folder.iterdir()) == []


def test_where_no_group_can_be_made_there_is_none(root: Path) -> None:
    assert Group.made(Limits()) is None
    assert not list(root.rglob("trt-lab-*"))
