"""Other processes: the grader killed, stopped, starved or read; processes that stay."""

from functools import partial

from tests.hostile.attack import Attack
from tests.hostile.goals import ended, leaks, slows, survives

_PARENTS = """
import os, signal
def parents():
    pid = os.getppid()
    while pid > 1:
        yield pid
        pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
"""
_MEMORY = """
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
"""
_ENVIRON = "import os\nprint(dict(os.environ))\nprint(open(f'/proc/{os.getppid()}/environ').read())"
_STARVED = (
    "import resource\nfor pid in parents():\n    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, 3))\n    break"
)
_DOUBLE = "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(600)\n    os._exit(0)"


def _signals(name: str, about: str, number: str, target: str = "os.getppid()") -> Attack:
    return _attack(f"grader_{name}", about=about, goal=ended, code=f"{_PARENTS}os.kill({target}, signal.{number})")


_EVERY = """
import os, signal
for name in os.listdir("/proc"):
    if name.isdigit() and int(name) not in (1, os.getpid()):
        try:
            os.kill(int(name), signal.SIGKILL)
        except OSError:
            pass
"""
_DEAF = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    time.sleep(600)
"""

_attack = partial(Attack, group="processes", guards=("sandbox",), alone=True)
ATTACKS = [
    _signals("killed", "Kills its parent.", "SIGKILL"),
    _signals("terminated", "Asks its parent to end.", "SIGTERM"),
    _signals("interrupted", "Interrupts its parent, as Ctrl-C does.", "SIGINT"),
    _signals("hung_up", "Tells its parent that the terminal is gone.", "SIGHUP"),
    _signals("aborted", "Has its parent abort.", "SIGABRT"),
    _signals("stopped", "Stops its parent, which would wait for ever.", "SIGSTOP"),
    _signals("killed_with_everything", "Kills everything it may.", "SIGKILL", "-1"),
    _attack(
        "every_process_killed",
        about="Kills whatever /proc lists.",
        goal=ended,
        code=_EVERY,
    ),
    _attack(
        "grader_starved_of_files",
        about="Gives its parent a limit of three open files.",
        goal=ended,
        code=_PARENTS + _STARVED,
    ),
    _attack(
        "grader_starved_of_space",
        about="Gives its parent a limit of file size.",
        goal=ended,
        code=_PARENTS + _STARVED.replace("NOFILE, (3, 3)", "FSIZE, (100, 100)"),
    ),
    _attack(
        "everybody_slowed_down",
        about="Gives all processes of the grader's user the lowest priority.",
        goal=slows,
        code="import os\nos.setpriority(os.PRIO_USER, 0, 19)",
    ),
    _attack("grader_memory_read", about="Reads the grader's memory.", goal=leaks, code=_MEMORY),
    _attack("grader_environment_read", about="Reads its environment and the grader's.", goal=leaks, code=_ENVIRON),
    _attack(
        "daemon",
        about="A process of a session of its own stays.",
        goal=survives,
        guards=("sandbox", "watch"),
        code="import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)",
    ),
    _attack(
        "daemon_twice_forked",
        about="A process whose parent has ended stays.",
        goal=survives,
        guards=("sandbox", "watch"),
        code=f"import os, time\n{_DOUBLE}",
    ),
    _attack(
        "daemon_that_ignores_signals",
        about="A process that ignores every signal it may stays.",
        goal=survives,
        guards=("sandbox", "watch"),
        code=_DEAF,
    ),
    _attack(
        "daemon_in_a_dead_kernel",
        about="A process stays, and the kernel that started it dies.",
        goal=survives,
        guards=("sandbox", "watch"),
        code="import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\nos._exit(1)",
        says="kernel died|ended",
    ),
]
