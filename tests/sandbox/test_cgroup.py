"""Control groups: which one is taken, what is written there; and the kernel's own limits where one can be made."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from solutions.sandbox import Limits
from solutions.sandbox.cgroup import Group, left_in_groups, mounted, nearest, place

MIB = 1 << 20


def tree_of(root: Path, given: dict[str, str]) -> None:
    """Make groups with what their own groups are given."""
    for path, controllers in given.items():
        folder = root / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.subtree_control").write_text(controllers)
        (folder / "cgroup.procs").touch()


def test_the_nearest_group_whose_groups_have_limits_is_taken(tmp_path: Path) -> None:
    tree_of(tmp_path, {".": "cpu memory pids", "user": "memory pids", "user/session": ""})
    assert nearest(tmp_path, "user/session") == tmp_path / "user"
    tree_of(tmp_path, {"user": "cpu"})
    assert nearest(tmp_path, "user/session") == tmp_path
    tree_of(tmp_path, {".": "cpu"})
    assert nearest(tmp_path, "user/session") is None
    assert nearest(tmp_path, "elsewhere") is None


def test_what_is_left_in_a_container_is_seen_with_what_its_kernel_would_give_back(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    for folder, names, prefix in (
        ("job", ("memory.max", "memory.current"), ""),
        ("memory/slurm/job", ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_"),
    ):
        (tmp_path / folder / "step").mkdir(parents=True)
        for name, number in zip(names, (1000, 900), strict=True):
            (tmp_path / folder / name).write_text(f"{number}\n")
        stat = f"anon 500\n{prefix}inactive_file 200\n{prefix}active_file 100\nslab_unreclaimable 7\n"
        (tmp_path / folder / "memory.stat").write_text(stat)
    (tmp_path / "job" / "step" / "memory.max").write_text("max\n")
    own.write_text("0::/job/step\n")
    assert list(left_in_groups(own, tmp_path)) == [400]
    own.write_text("9:name=systemd:/\n7:cpu,memory:/slurm/job/step\n")
    assert list(left_in_groups(own, tmp_path)) == [400]
    assert list(left_in_groups(tmp_path / "none", tmp_path)) == []


def test_limits_and_processes_are_written_where_the_kernel_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Path.mkdir

    def mkdir(path: Path, *given: object, **named: object) -> None:  # as the kernel does, which fills it
        made(path, *given, **named)
        for name in ("memory.max", "memory.oom.group", "pids.max", "cgroup.procs", "cgroup.kill"):
            (path / name).touch()

    monkeypatch.setattr(Path, "mkdir", mkdir)
    group = Group.limited(tmp_path, Limits(memory_bytes=64 * MIB))
    (folder,) = tmp_path.iterdir()
    written = {name: (folder / name).read_text() for name in ("memory.max", "memory.oom.group", "pids.max")}
    assert written == {"memory.max": str(64 * MIB), "memory.oom.group": "1", "pids.max": "4096"}
    assert not (folder / "memory.swap.max").exists()  # a kernel without swap has no such file
    group.take([7])
    assert (folder / "cgroup.procs").read_text() == "7"
    assert not group.out_of_memory
    (folder / "memory.events").write_text("low 0\noom 3\noom_kill 1\n")
    assert group.out_of_memory


@pytest.mark.skipif(not os.access(mounted() or "/nowhere", os.W_OK), reason="no control group can be made here")
def test_the_kernel_ends_what_is_left_in_a_group() -> None:
    group = Group.limited(mounted(), Limits())
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        group.take([process.pid])
        assert f"{group._folder.name}\n" in Path(f"/proc/{process.pid}/cgroup").read_text()
        group.close()
        assert process.wait(10) == -9 and not group._folder.exists()


@pytest.mark.skipif(
    place() is None or "memory" not in (place() / "cgroup.subtree_control").read_text(),
    reason="no memory limit can be had here",
)
def test_the_kernel_ends_a_group_that_takes_too_much_at_once() -> None:
    group = Group.made(Limits(memory_bytes=64 * MIB))
    code = "import sys; sys.stdin.read(1); bytearray(b'x') * (1 << 28)"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        group.take([process.pid])
        process.stdin.write(b"x")
        process.stdin.close()
        assert process.wait(20) == -9 and group.out_of_memory
    group.close()
