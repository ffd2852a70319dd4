"""The sandbox that this machine has: what a stranger's process sees, and which limit ends it.

`trtlab doctor --sandbox` and `make hostile` try the escapes; here is what a sandbox is told, and a few real runs.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from solutions.sandbox import KINDS, VARIABLE, Limits, Room, choice, chosen, command, processes, remove, run, trouble
from solutions.sandbox.processes import born_at, end, memory_bytes, paused, tree
from solutions.sandbox.room import ROOT, close, environment_of, visible
from solutions.sandbox.scratch import passed
from trtcpu.errors import LabError

WORKS = [kind for kind in KINDS if not trouble(kind)]
MIB = 1 << 20


@pytest.fixture(params=WORKS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def test_the_environment_is_an_allow_list_with_a_fresh_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("OUR_SECRET", "7")
    monkeypatch.setenv("TRT_LAB_ENGINE", "cpu")
    inside = environment_of(Room(tmp_path, environment={"ADDED": "1"}))
    assert {"AWS_SECRET_ACCESS_KEY", "OUR_SECRET", "JPY_PARENT_PID"}.isdisjoint(inside)
    assert (inside["TRT_LAB_ENGINE"], inside["ADDED"]) == ("cpu", "1")
    assert inside["HOME"] == f"{tmp_path}/home" and inside["TMPDIR"] == f"{tmp_path}/tmp"


def test_nothing_that_can_be_read_holds_solutions_or_what_a_course_keeps(tmp_path: Path) -> None:
    hidden = ("solutions", "trtlab", "submitted", "autograded", "feedback", "results", "gradebook.db", ".git", "tests")
    paths = visible(Room(tmp_path))
    assert {ROOT / "helpers", ROOT / "trtcpu", ROOT / "course.toml"} <= set(paths)
    assert [path for path in paths for name in hidden if (ROOT / name).is_relative_to(path)] == []


def test_a_project_that_lies_where_submissions_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=f"could read {ROOT}"):
        visible(Room(tmp_path, reads=(ROOT.parent,)))


def test_a_python_in_usr_local_shows_its_own_folders_and_nothing_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local, packages = tmp_path / "usr" / "local", tmp_path / "elsewhere" / "site-packages"
    for folder in (*(local / name for name in ("bin", "lib", "share", "etc", "src")), packages):
        folder.mkdir(parents=True)
    (local / "lib" / "site-packages").symlink_to(packages)
    for name in ("prefix", "base_prefix"):
        monkeypatch.setattr(sys, name, str(local))
    monkeypatch.setattr("site.getsitepackages", lambda: [str(local / "lib" / "site-packages")])
    paths = visible(Room(tmp_path / "scratch"))
    assert [path for path in paths if path.is_relative_to(tmp_path)] == [local / "bin", local / "lib", packages]
    strangers = [
        Path("/", *name.split()) for name in ("usr", "usr local", "home", "srv", "opt", "mnt", "usr local share")
    ]
    assert not {*paths} & {*strangers}


def test_a_python_that_is_reached_by_a_link_in_another_folder_is_found(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "usr" / "local" / "bin"
    folder.mkdir(parents=True)
    (folder / "python3.x").symlink_to(Path(sys.executable).resolve())
    (folder / "beside").write_text("x")
    (tmp_path / "python").symlink_to(folder / "python3.x")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    code = f"import os; print(os.path.exists({str(folder / 'python3.x')!r}))\nopen({str(folder / 'beside')!r})"
    done = run([str(tmp_path / "python"), "-I", "-S", "-c", code], Room(tmp_path / "scratch"), kind=kind)
    assert done.stdout == b"True\n" and b"Error" in done.stderr


@pytest.mark.parametrize("at", ["", "nbgrader/exchange", "nbgrader/exchange/inbound"])
def test_what_shows_the_exchange_is_refused(at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = tmp_path / "share" / "nbgrader" / "exchange"
    (exchange / "inbound").mkdir(parents=True)
    monkeypatch.setattr("solutions.sandbox.room._closed", set())
    close(exchange)
    with pytest.raises(LabError, match=f"could read {exchange}"):
        visible(Room(tmp_path / "scratch", reads=(tmp_path / "share" / at,)))


def test_where_there_is_no_proc_psutil_sees_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"]) as shell:
        assert _soon(lambda: len(tree(shell.pid)) == 2)
        by_proc = tree(shell.pid, born_at(shell.pid))
        monkeypatch.setattr(processes, "_PROC", False)
        assert tree(shell.pid, born_at(shell.pid)) == by_proc and tree(shell.pid, "another") == []
        assert memory_bytes(by_proc, 1 << 40) > 0
        end(shell.pid)
        assert tree(shell.pid) == []


@pytest.mark.slow
def test_fork_chains_and_threads_stand_still_while_they_are_paused(kind: str, tmp_path: Path) -> None:
    room = Room(tmp_path / "scratch")
    code = """
import os, threading, time
beats = [os.open(f"beats-{number}", os.O_CREAT | os.O_WRONLY | os.O_APPEND) for number in range(65)]
def thread():
    while True:
        os.write(beats[0], b"x")
        time.sleep(0.001)
for number in range(1, 65):
    if not os.fork():
        while True:
            os.write(beats[number], b"x")
            if os.fork():
                os._exit(0)
            os.setsid()
threading.Thread(target=thread).start()
"""
    line, environment = command(kind, python(code), room)

    def beats() -> list[int]:
        return [path.stat().st_size for path in sorted(room.scratch.glob("beats-*"))]

    process = subprocess.Popen(line, env=environment, cwd=room.scratch)
    try:
        assert _soon(lambda: len(beats()) == 65 and all(beats()))
        with paused(process.pid):
            before = beats()
            time.sleep(0.5)
            assert beats() == before
        assert _soon(lambda: all(now > then for now, then in zip(beats(), before, strict=True)))
    finally:
        end(process.pid)
        process.wait()


def test_a_sandbox_that_is_unknown_or_does_not_work_is_refused_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "trouble", lambda kind: f"no {kind} today")
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(LabError, match="bubblewrap: no bubblewrap today.*--unsafe-no-sandbox"):
        chosen()
    assert chosen(unsafe=True) == "none"
    monkeypatch.setenv(VARIABLE, "bubblewrap")
    with pytest.raises(LabError, match="no bubblewrap today"):
        chosen(unsafe=True)
    monkeypatch.setenv(VARIABLE, "jail")
    with pytest.raises(LabError, match="TRT_LAB_SANDBOX=jail is not known"):
        chosen()
    monkeypatch.setenv(VARIABLE, "none")
    with pytest.raises(LabError, match="TRT_LAB_SANDBOX=none"):
        chosen()


def test_the_gpu_s_devices_are_passed_only_where_they_are_asked_for(tmp_path: Path) -> None:
    plain, environment = command("bubblewrap", ["true"], Room(tmp_path))
    assert "/sys" not in plain and environment["HOME"] == f"{tmp_path}/home"
    assert "/sys" in command("bubblewrap", ["true"], Room(tmp_path, gpu=True))[0]


def test_a_command_reads_its_input_and_writes_only_its_scratch(kind: str, tmp_path: Path) -> None:
    outside = ROOT / "helpers" / f"{tmp_path.parent.name}.txt"
    code = f"""
import os, sys
open("kept", "w").write(sys.stdin.read())
try:
    open({str(outside)!r}, "w")
except OSError:
    print(os.getcwd(), os.access({str(ROOT / "solutions" / "grading")!r}, os.R_OK))
"""
    done = run(python(code), Room(tmp_path / "scratch"), kind=kind, input=b"heard")
    assert (done.returncode, done.ended_by, done.stderr) == (0, "", b"")
    assert done.stdout.decode() == f"{tmp_path}/scratch False\n" or kind == "landlock"
    assert (tmp_path / "scratch" / "kept").read_text() == "heard" and not outside.exists()


@pytest.mark.parametrize(
    "code, limits, said",
    [
        ("x = []\nwhile True: x.append(b'x' * (8 << 20))", Limits(memory_bytes=200 * MIB), "200 MiB of memory"),
        ("for _ in range(40): os.fork() or time.sleep(60)\ntime.sleep(60)", Limits(processes=20), "20 processes"),
        (
            "n = 0\nwhile True: n += 1; open(str(n), 'wb').write(bytes(1 << 20))",
            Limits(scratch_bytes=40 * MIB),
            "wrote",
        ),
        ("time.sleep(60)", Limits(seconds=0.5), "longer than its limit of 0.5 s"),
        (
            "for n in range(300): open(str(n), 'w')\ntime.sleep(60)",
            Limits(scratch_files=200),
            "more than its limit of 200 files",
        ),
        (
            "for n in '12': open(n, 'w').truncate(30 << 20)\ntime.sleep(60)",
            Limits(scratch_bytes=40 * MIB),
            "wrote more than its limit of 40 MiB",
        ),
    ],
    ids=["memory", "processes", "disk", "time", "files", "sparse files"],
)
def test_what_passes_a_limit_is_ended_with_all_that_it_started(
    kind: str, tmp_path: Path, code: str, limits: Limits, said: str
) -> None:
    done = run(python(f"import os, time\n{code}"), Room(tmp_path), limits, kind=kind)
    assert done.returncode != 0 and said in done.ended_by
    assert str(tmp_path) not in _command_lines()


@pytest.mark.parametrize("full", ["disk", "disk's files", "memory"])
def test_a_full_machine_ends_what_runs_and_is_nobody_s_fault(
    full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, left, said = _LEFT[full]
    monkeypatch.setattr(f"solutions.sandbox.watch.{name}", lambda *_: left)
    with pytest.raises(SystemExit, match=f"the machine's {said}"):
        run(python("import time\ntime.sleep(60)"), Room(tmp_path), kind="none")
    with pytest.raises(SystemExit, match=f"the machine's {said}"):  # which it may have met before it ended
        run(python("raise OSError(28, 'No space left on device')"), Room(tmp_path), kind="none")


def _disk(free_mib: int = 1 << 20, free_files: int = 1 << 20) -> SimpleNamespace:
    return SimpleNamespace(f_bavail=free_mib, f_frsize=MIB, f_files=1 << 20, f_favail=free_files)


_LEFT = {
    "disk": ("os.statvfs", _disk(200), "disk is full: less than 256 MiB"),
    "disk's files": ("os.statvfs", _disk(free_files=200), "disk is full: it has room for less than 1,000 files"),
    "memory": ("free_memory", 200 * MIB, "memory is full"),
}


def test_who_fills_the_machine_past_a_limit_of_its_own_pays_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solutions.sandbox.watch.os.statvfs", lambda _: _disk(200))
    (tmp_path / "written").write_bytes(bytes(2 * MIB))
    done = run(python("import time\ntime.sleep(60)"), Room(tmp_path), Limits(scratch_bytes=MIB), kind="none")
    assert done.ended_by == "it wrote more than its limit of 1 MiB"


def _command_lines() -> str:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_text())
        except OSError:
            continue
    return "\n".join(line for line in lines if f"\0{os.getpid()}\0" not in line)


def test_shared_memory_is_its_own_and_limited_or_closed(kind: str, tmp_path: Path) -> None:
    prefix = f"trtlab-{os.getpid()}-{kind}"
    code = f"""
import os, time
os.mkdir("/dev/shm/{prefix}-folder")
for n in range(60):
    open(f"/dev/shm/{prefix}-folder/{{n}}", "wb").write(bytes(1 << 20))
time.sleep(20)
"""
    done = run(python(code), Room(tmp_path), Limits(memory_bytes=64 * MIB, scratch_bytes=20 * MIB), kind=kind)
    assert b"Permission denied" in done.stderr if kind == "landlock" else "wrote more" in done.ended_by
    assert list(Path("/dev/shm").glob(f"{prefix}*")) == []


def test_nothing_outlives_a_grader_that_is_killed(kind: str, tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from solutions.sandbox import Room, run
inside = "import os, time; os.fork() or os.setsid(); open('there', 'w'); time.sleep(60)"
run([{sys.executable!r}, "-I", "-S", "-c", inside], Room(Path({str(tmp_path)!r})), kind={kind!r})
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) as grader:
        assert _soon(lambda: (tmp_path / "there").exists())
        assert str(tmp_path) in _command_lines()
        grader.kill()
    assert _soon(lambda: str(tmp_path) not in _command_lines())


def _soon(happens: Callable[[], bool]) -> bool:
    ends = time.monotonic() + 30
    while not happens() and time.monotonic() < ends:
        time.sleep(0.05)
    return happens()


def test_a_folder_is_removed_whatever_was_made_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    folder.mkdir()
    code = "import os\nfor _ in range(1100): os.mkdir('d'); os.chdir('d')\nos.mkdir('closed'); os.chmod('closed', 0)"
    subprocess.run(python(code), cwd=folder, check=True)
    (folder / "link").symlink_to(ROOT)
    assert "deep" in passed(folder, Limits())
    remove(folder)
    assert not folder.exists() and ROOT.is_dir()
    remove(folder)


def test_what_a_first_command_leaves_leads_a_second_one_nowhere(kind: str, tmp_path: Path) -> None:
    room, outside = Room(tmp_path / "scratch"), tmp_path / "outside"
    outside.mkdir()
    names = ("home", "tmp", "shm", "site")
    code = f"import os\nfor name in {names}: os.rename(name, 'old-' + name); os.symlink({str(outside)!r}, name)"
    assert run(python(code), room, kind=kind).returncode == 0
    code = """
import helpers, os, tempfile
for folder in ("/tmp", "/dev/shm", tempfile.gettempdir(), os.environ["HOME"]):
    try:
        open(folder + "/written", "w")
    except OSError:
        pass
import debugpy
"""
    done = run([sys.executable, "-c", code], room, kind=kind)
    assert done.stderr.decode().endswith("ImportError: there is no network\n")
    assert list(outside.iterdir()) == [] and (room.scratch / "home" / "written").exists()


def test_what_lies_in_a_folder_that_is_seen_is_not_named_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cuda").mkdir()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/usr/lib/sub:/usr/lib:{tmp_path}/cuda")
    paths = visible(Room(tmp_path / "scratch", gpu=True))
    assert paths.count(Path("/usr/lib")) == 1 and tmp_path / "cuda" in paths and Path("/usr/lib/sub") not in paths


def test_with_a_gpu_threads_can_be_named_and_nothing_else_of_the_machine_changed(kind: str, tmp_path: Path) -> None:
    code = """
for path in ("/proc/self/comm", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"):
    try:
        open(path, "w").write("x")
        print("done")
    except OSError as error:
        print(type(error).__name__)
"""
    done = run(python(code), Room(tmp_path / "scratch", gpu=True), kind=kind)
    said = done.stdout.decode().split()
    assert said[0] == "done" and set(said[1:]) <= {"PermissionError", "OSError", "FileNotFoundError"} and len(said) == 3
