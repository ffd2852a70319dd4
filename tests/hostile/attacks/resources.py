"""Memory, processes, disk and time, scaled to the fixture course's limits (tests/hostile/course.py)."""

from functools import partial

from helpers.course.settings import ONNX_FILE
from tests.hostile.attack import Attack
from tests.hostile.goals import disk, ended, memory, processes

_HELD = """
import time
held = []
for _ in range(16):
    held.append(bytearray(b"y") * (100 << 20))
    time.sleep(0.2)
time.sleep(3)
"""
_CHILDREN = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        held = bytearray(b"y") * (200 << 20)
        time.sleep(6)
        os._exit(0)
    time.sleep(0.2)
time.sleep(5)
"""
_MAPPED = """
import mmap, time
held = []
for _ in range(16):
    held.append(mmap.mmap(-1, 100 << 20))
    for start in range(0, 100 << 20, 4096):
        held[-1][start] = 1
    time.sleep(0.2)
time.sleep(3)
"""
_FORKS = """
import os, time
for _ in range(400):
    try:
        if os.fork() == 0:
            time.sleep(8)
            os._exit(0)
    except OSError:
        break
time.sleep(4)
"""
_BOMB = """
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
"""
_THREADS = """
import threading, time
for _ in range(6000):
    try:
        threading.Thread(target=time.sleep, args=(8,), daemon=True).start()
    except RuntimeError:
        break
time.sleep(4)
"""
_FILES = """
import os, time
for number in range(40):
    with open(os.path.join(PLACE, f"filler-{number}"), "wb") as file:
        file.write(bytes(10 << 20))
    time.sleep(0.05)
time.sleep(3)
"""
_ONE_FILE = """
import os, time
with open("filler", "wb") as file:
    for _ in range(40):
        file.write(bytes(10 << 20))
        file.flush()
        time.sleep(0.05)
time.sleep(3)
"""
_REMOVED = """
import os, time
held = []
for number in range(40):
    held.append(open(f"filler-{number}", "wb"))
    os.unlink(f"filler-{number}")
    held[-1].write(bytes(10 << 20))
    held[-1].flush()
    time.sleep(0.05)
time.sleep(3)
"""
_EMPTY = "for number in range(30_000):\n    open(f'empty-{number}', 'w').close()\n"
_OPEN = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        for _ in range(4000):
            os.dup(1)
        time.sleep(15)
        os._exit(0)
time.sleep(2)
"""
_SPARSE = """
import os
for name in ("resnet50.onnx", "{ONNX}"):
    with open(os.path.join("artifacts", name), "wb") as file:
        file.truncate(150 << 20)
os._exit(0)
""".replace("{ONNX}", ONNX_FILE)
_STUBBORN = """
def square(x):
    import time
    while True:
        try:
            time.sleep(1)
        except BaseException:
            pass
"""
_STOPPED = "import os, signal\ndef square(x):\n    os.kill(os.getpid(), signal.SIGSTOP)\n    return 0"
_NO_SIGNALS = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    pass
"""
_MEMORY, _PROCESSES, _THREAD_COUNT, _DISK = 1350, 300, 4600, 250

_attack = partial(Attack, group="resources", alone=True, apart=True)  # peaks are of a class
_memory = partial(_attack, goal=memory(_MEMORY), guards=("memory",), says="memory|kernel died")
_processes = partial(_attack, goal=processes(_PROCESSES), guards=("processes",))
_disk = partial(_attack, goal=disk(_DISK), guards=("scratch",))
_time = partial(_attack, goal=ended, guards=("time",), says="time limit|did not end")
ATTACKS = [
    _memory("memory_held", about="1.6 GB in one process.", code=_HELD),
    _memory("memory_of_children", about="1.6 GB in eight processes.", code=_CHILDREN),
    _memory("memory_mapped", about="1.6 GB of shared pages.", code=_MAPPED),
    _processes("processes_in_a_row", about="400 processes.", code=_FORKS),
    _processes(
        "fork_bomb",
        about="Processes that start processes, to a depth of eight: what they map is more than is looked at, too.",
        code=_BOMB,
        guards=("processes", "scratch"),
    ),
    _processes(
        "threads",
        about="6,000 threads.",
        code=_THREADS,
        goal=processes(_THREAD_COUNT),
        guards=("processes", "sandbox"),
    ),
    _disk("files_in_the_folder", about="400 MB beside the notebook.", code=_FILES.replace("PLACE", "'.'")),
    _disk("files_in_the_home", about="400 MB in the home.", code=_FILES.replace("PLACE", "os.path.expanduser('~')")),
    _disk(
        "files_in_temporary",
        about="400 MB of temporary files.",
        code=_FILES.replace("PLACE", "__import__('tempfile').gettempdir()"),
    ),
    _disk("one_file", about="A file that grows to 400 MB.", code=_ONE_FILE),
    _disk("removed_files", about="400 MB in files that no folder lists.", code=_REMOVED),
    _disk(
        "files_behind_empty_ones",
        about="400 MB beside 30,000 empty files, which each look at the folder must pass.",
        code=_EMPTY + _FILES.replace("PLACE", "'.'"),
    ),
    _disk(
        "files_behind_open_ones",
        about="400 MB while processes hold 24,000 files open, which each look at deleted files must pass.",
        code=_OPEN + _FILES.replace("PLACE", "'.'"),
    ),
    _disk(
        "sparse_artifacts",
        about="Two sparse files to hand on, 150 MB each where they are copied, and the kernel ends at once.",
        code=_SPARSE,
    ),
    _disk(
        "shared_memory",
        about="200 MB and more in shared memory.",
        code=_FILES.replace("PLACE", "'/dev/shm'"),
        guards=("scratch", "sandbox"),
    ),
    _time("endless", about="A loop that passes over interrupts.", code=_STUBBORN),
    _time("stops_itself", about="The kernel is stopped while a claim waits.", code=_STOPPED),
    _time("deaf", about="A loop in the notebook, with every signal blocked.", code=_NO_SIGNALS),
]
