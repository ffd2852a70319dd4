"""Other processes, killed, starved, read or left behind; and memory, processes, disk and time.

What is used up is scaled to the fixture course's limits (tests/hostile/course.py).
"""

from functools import partial

from helpers.course.settings import ONNX_FILE
from tests.hostile.attack import Attack
from tests.hostile.goals import ended, leaks, peak, slows, survives

_PARENTS = """
import os, signal
def parents():
    pid = os.getppid()
    while pid > 1:
        yield pid
        pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
"""
_STARVED = (
    "import resource\nfor pid in parents():\n    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, 3))\n    break"
)


def _signals(name: str, about: str, number: str, target: str = "os.getppid()") -> Attack:
    return _processes(f"grader_{name}", about=about, goal=ended, code=f"{_PARENTS}os.kill({target}, signal.{number})")


_FILES = """
import os, time
for number in range(40):
    with open(os.path.join(PLACE, f"filler-{number}"), "wb") as file:
        file.write(bytes(10 << 20))
    time.sleep(0.05)
time.sleep(3)
"""
_processes = partial(Attack, group="processes", guards=("sandbox",), alone=True)
_resources = partial(Attack, group="resources", alone=True, apart=True)  # peaks are of a class
_memory = partial(_resources, goal=peak("memory", 1350), guards=("memory",), says="memory|kernel died")
_many = partial(_resources, goal=peak("processes", 300), guards=("processes",))
_disk = partial(_resources, goal=peak("disk", 250), guards=("scratch",))
_time = partial(_resources, goal=ended, guards=("time",), says="time limit|did not end")
ATTACKS = [
    _signals("killed", "Kills its parent.", "SIGKILL"),
    _signals("terminated", "Asks its parent to end.", "SIGTERM"),
    _signals("interrupted", "Interrupts its parent, as Ctrl-C does.", "SIGINT"),
    _signals("hung_up", "Tells its parent that the terminal is gone.", "SIGHUP"),
    _signals("aborted", "Has its parent abort.", "SIGABRT"),
    _signals("stopped", "Stops its parent, which would wait for ever.", "SIGSTOP"),
    _signals("killed_with_everything", "Kills everything it may.", "SIGKILL", "-1"),
    _processes(
        "every_process_killed",
        about="Kills whatever /proc lists.",
        goal=ended,
        code="""
import os, signal
for name in os.listdir("/proc"):
    if name.isdigit() and int(name) not in (1, os.getpid()):
        try:
            os.kill(int(name), signal.SIGKILL)
        except OSError:
            pass
""",
    ),
    _processes(
        "grader_starved_of_files",
        about="Gives its parent a limit of three open files.",
        goal=ended,
        code=_PARENTS + _STARVED,
    ),
    _processes(
        "grader_starved_of_space",
        about="Gives its parent a limit of file size.",
        goal=ended,
        code=_PARENTS + _STARVED.replace("NOFILE, (3, 3)", "FSIZE, (100, 100)"),
    ),
    _processes(
        "everybody_slowed_down",
        about="Gives all processes of the grader's user the lowest priority.",
        goal=slows,
        code="import os\nos.setpriority(os.PRIO_USER, 0, 19)",
    ),
    _processes(
        "grader_memory_read",
        about="Reads the grader's memory.",
        goal=leaks,
        code="""
import os, re
def found(pid):
    for line in open(f"/proc/{pid}/maps"):
        span = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
        if not span:
            continue
        start, end = (int(edge, 16) for edge in span.groups())
        if end - start > 1 << 26:
            continue
        with open(f"/proc/{pid}/mem", "rb") as memory:
            memory.seek(start)
            try:
                content = memory.read(end - start)
            except OSError:
                continue
        for hit in re.finditer(rb"correct-horse-[a-z]{7}", content):
            return hit.group().decode()
print(found(os.getppid()))
""",
    ),
    _processes(
        "grader_environment_read",
        about="Reads its environment and the grader's.",
        goal=leaks,
        code="import os\nprint(dict(os.environ))\nprint(open(f'/proc/{os.getppid()}/environ').read())",
    ),
    _processes(
        "daemon",
        about="A process of a session of its own stays.",
        goal=survives,
        guards=("sandbox", "watch"),
        code="import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)",
    ),
    _processes(
        "daemon_twice_forked",
        about="A process whose parent has ended stays.",
        goal=survives,
        guards=("sandbox", "watch"),
        code="""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
""",
    ),
    _processes(
        "daemon_that_ignores_signals",
        about="A process that ignores every signal it may stays.",
        goal=survives,
        guards=("sandbox", "watch"),
        code="""
import os, signal, time
if os.fork() == 0:
    os.setsid()
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    time.sleep(600)
""",
    ),
    _processes(
        "daemon_in_a_dead_kernel",
        about="A process stays, and the kernel that started it dies.",
        goal=survives,
        guards=("sandbox", "watch"),
        code="import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\nos._exit(1)",
        says="kernel died|ended",
    ),
    _memory(
        "memory_held",
        about="1.6 GB in one process.",
        code="""
import time
held = []
for _ in range(16):
    held.append(bytearray(b"y") * (100 << 20))
    time.sleep(0.2)
time.sleep(3)
""",
    ),
    _memory(
        "memory_of_children",
        about="1.6 GB in eight processes.",
        code="""
import os, time
for _ in range(8):
    if os.fork() == 0:
        held = bytearray(b"y") * (200 << 20)
        time.sleep(6)
        os._exit(0)
    time.sleep(0.2)
time.sleep(5)
""",
    ),
    _memory(
        "memory_mapped",
        about="1.6 GB of shared pages.",
        code="""
import mmap, time
held = []
for _ in range(16):
    held.append(mmap.mmap(-1, 100 << 20))
    for start in range(0, 100 << 20, 4096):
        held[-1][start] = 1
    time.sleep(0.2)
time.sleep(3)
""",
    ),
    _many(
        "processes_in_a_row",
        about="400 processes.",
        code="""
import os, time
for _ in range(400):
    try:
        if os.fork() == 0:
            time.sleep(8)
            os._exit(0)
    except OSError:
        break
time.sleep(4)
""",
    ),
    _many(
        "fork_bomb",
        about="Processes that start processes, to a depth of eight: what they map is more than is looked at, too.",
        code="""
import os, time
def bomb(depth):
    for _ in range(2):
        try:
            if os.fork() == 0:
                if depth:
                    bomb(depth - 1)
                time.sleep(8)
                os._exit(0)
        except OSError:
            return
bomb(7)
time.sleep(4)
""",
        guards=("processes", "scratch"),
    ),
    _many(
        "threads",
        about="6,000 threads.",
        # threading.Thread would wait for each to run: on a busy machine the first had ended before the last began.
        code="""
import _thread, time
for _ in range(6000):
    try:
        _thread.start_new_thread(time.sleep, (60,))
    except RuntimeError:
        break
time.sleep(4)
""",
        goal=peak("processes", 4600),
        guards=("processes", "sandbox"),
    ),
    _disk("files_in_the_folder", about="400 MB beside the notebook.", code=_FILES.replace("PLACE", "'.'")),
    _disk("files_in_the_home", about="400 MB in the home.", code=_FILES.replace("PLACE", "os.path.expanduser('~')")),
    _disk(
        "files_in_temporary",
        about="400 MB of temporary files.",
        code=_FILES.replace("PLACE", "__import__('tempfile').gettempdir()"),
    ),
    _disk(
        "one_file",
        about="A file that grows to 400 MB.",
        code="""
import os, time
with open("filler", "wb") as file:
    for _ in range(40):
        file.write(bytes(10 << 20))
        file.flush()
        time.sleep(0.05)
time.sleep(3)
""",
    ),
    _disk(
        "removed_files",
        about="400 MB in files that no folder lists.",
        code="""
import os, time
held = []
for number in range(40):
    held.append(open(f"filler-{number}", "wb"))
    os.unlink(f"filler-{number}")
    held[-1].write(bytes(10 << 20))
    held[-1].flush()
    time.sleep(0.05)
time.sleep(3)
""",
    ),
    _disk(
        "files_behind_empty_ones",
        about="400 MB beside 30,000 empty files, which each look at the folder must pass.",
        code="for number in range(30_000):\n    open(f'empty-{number}', 'w').close()\n"
        + _FILES.replace("PLACE", "'.'"),
    ),
    _disk(
        "files_behind_open_ones",
        about="400 MB while processes hold 24,000 files open, which each look at deleted files must pass.",
        code="""
import os, time
for _ in range(6):
    if os.fork() == 0:
        for _ in range(4000):
            os.dup(1)
        time.sleep(15)
        os._exit(0)
time.sleep(2)
"""
        + _FILES.replace("PLACE", "'.'"),
    ),
    _disk(
        "sparse_artifacts",
        about="Two sparse files to hand on, 150 MB each where they are copied, and the kernel ends at once.",
        code="""
import os
for name in ("resnet50.onnx", "ONNX"):
    with open(os.path.join("artifacts", name), "wb") as file:
        file.truncate(150 << 20)
os._exit(0)
""".replace("ONNX", ONNX_FILE),
    ),
    _disk(
        "shared_memory",
        about="400 MB of shared memory.",
        code=_FILES.replace("PLACE", "'/dev/shm'"),
        guards=("scratch", "sandbox"),
    ),
    _time(
        "endless",
        about="A loop that passes over interrupts.",
        code="""
def square(x):
    import time
    while True:
        try:
            time.sleep(1)
        except BaseException:
            pass
""",
    ),
    _time(
        "stops_itself",
        about="The kernel is stopped while a claim waits.",
        code="import os, signal\ndef square(x):\n    os.kill(os.getpid(), signal.SIGSTOP)\n    return 0",
    ),
    _time(
        "deaf",
        about="A loop in the notebook, with every signal blocked.",
        code="""
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    pass
""",
    ),
]
