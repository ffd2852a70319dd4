"""Ways out of a sandbox, as data.

Each is code that runs inside. It knows what lies outside by names that `ways_out.py` gives it, and prints a line that
begins with ESCAPED where it reached its goal; an exception means that it did not. Some goals can only be seen from
outside: a file that was changed, a process that was left.
"""

from dataclasses import dataclass, field

from solutions.sandbox.room import Limits

ESCAPED = "ESCAPED"
_MIB = 1 << 20


@dataclass(frozen=True)
class Escape:
    """One way out."""

    name: str
    code: str
    limits: Limits = field(default_factory=lambda: Limits(512 * _MIB, 32, 64 * _MIB, 20))
    ended_by: str = ""
    """A pattern for the limits that may end it; empty if it has to end by itself."""


PRELUDE = """
import ctypes, json, os, resource, signal, socket, struct, subprocess, sys, time
globals().update(json.loads(os.environ["OUTSIDE"]))
libc = ctypes.CDLL(None, use_errno=True)
def escaped(evidence=""):
    print("ESCAPED", evidence, flush=True)
def call(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
"""
"""Runs before each; the names of OUTSIDE are `Outside`'s in ways_out.py."""

_X86 = "os.uname().machine == 'x86_64'"
_FILES = (
    Escape("read the hidden checks", "escaped(len(open(f'{root}/solutions/checks/__init__.py').read()))"),
    Escape("read the tool's answers", "escaped(len(open(f'{root}/trtlab/building/build.py').read()))"),
    Escape("see the names in the project's folder", "'solutions' in os.listdir(root) and escaped()"),
    Escape("read the gradebook", "escaped(open(f'{outside}/gradebook.db').read())"),
    Escape("list the home folder", "set(os.listdir(home)) & set(private) and escaped(private)"),
    Escape("list what a site installed", "names = os.listdir('/usr/local/share'); names and escaped(names)"),
    Escape("write outside the scratch", "open(f'{outside}/new', 'w').write('x')"),
    Escape("change a file outside", "open(f'{outside}/gradebook.db', 'r+').write('x')"),
    Escape("cut off a file outside", "os.truncate(f'{outside}/gradebook.db', 0)"),
    Escape("change a file's mode outside", "os.chmod(f'{outside}/gradebook.db', 0)"),
    Escape("change a file's times outside", "os.utime(f'{outside}/gradebook.db', (0, 0))"),
    Escape("change the mode of a file that can be read", "os.fchmod(os.open(readable, os.O_RDONLY), 0o777)"),
    Escape("change helpers", "open(f'{root}/helpers/new.py', 'w'); escaped(); os.unlink(f'{root}/helpers/new.py')"),
    Escape("read through a link", "os.symlink(outside, 'out'); escaped(open('out/gradebook.db').read())"),
    Escape("write through a link", "os.symlink(outside, 'out'); open('out/new', 'w').write('x')"),
    Escape("a second name for a file outside", "os.link(f'{outside}/gradebook.db', 'same'); escaped()"),
    Escape("a raw device", "os.mknod('disk', 0o060600, disk); os.pread(os.open('disk', 0), 9, 0); escaped()"),
    Escape("the devices of the machine", "[os.open(name, 0) for name in devices] and escaped(devices)"),
    Escape("a setting of the kernel", "os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY); escaped()"),
    Escape("files left in /dev/shm", "open(f'/dev/shm/{marker}', 'w').write('x')"),
)
_PROCESSES = (
    Escape("kill another process", "os.kill(other, signal.SIGKILL); escaped()"),
    Escape(
        "kill the owner of a file",
        """
import fcntl
ours, theirs = socket.socketpair()
for own in (lambda: fcntl.fcntl(ours, 8, other), lambda: fcntl.ioctl(ours, 0x8901, struct.pack("i", other))):
    try:
        own()
        fcntl.fcntl(ours, 10, signal.SIGKILL)
        fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC)
        theirs.send(b"x")
    except OSError:
        pass
time.sleep(0.2)
""",
    ),
    Escape("stop the parent", "os.kill(os.getppid(), signal.SIGSTOP); time.sleep(1)"),
    Escape("limit another process", "resource.prlimit(other, resource.RLIMIT_NOFILE, (9, 9)); escaped()"),
    Escape("slow another process down", "os.setpriority(os.PRIO_PROCESS, other, 19); escaped()"),
    Escape(
        "slow all processes of the user down",
        """
own = os.getpriority(os.PRIO_PROCESS, 0)
os.setpriority(os.PRIO_USER, 0, own + 1)
os.getpriority(os.PRIO_PROCESS, other) > own and escaped()
""",
    ),
    Escape("trace another process", "libc.ptrace(0x4206, other, 0, 0) or escaped()"),  # PTRACE_SEIZE
    Escape("read another process's variables", "escaped(open(f'/proc/{other}/environ').read()[:40])"),
    Escape(
        "read the first process's variables",
        """
names = {entry.partition("=")[0] for entry in open("/proc/1/environ").read().split("\\0")}
names - set(os.environ) - {""} and escaped()
""",
    ),
    Escape("open another process's memory", "os.open(f'/proc/{other}/mem', os.O_RDONLY); escaped()"),
    Escape("see another process", "marker in open(f'/proc/{other}/cmdline').read() and escaped()"),
    Escape(
        "a daemon that survives",
        """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sh", ["sh", "-c", f"sleep 60; : {marker}"])
    os._exit(0)
time.sleep(0.3)
""",
    ),
)
_RIGHTS = (
    Escape("mount a file system", "os.mkdir('m'); libc.mount(b'none', b'm', b'tmpfs', 0, None) or escaped()"),
    Escape("a new user namespace", "libc.unshare(0x10000000) or escaped()"),
    Escape("a setuid program gains rights", "'NoNewPrivs:\\t0' in open('/proc/self/status').read() and escaped()"),
    Escape("rights of root", "'CapEff:\\t0000000000000000' in open('/proc/self/status').read() or escaped()"),
    Escape("the kernel's keyring", f"escaped(call(248 if {_X86} else 217, b'user', b'k', b'v', 1, -3))"),
    Escape("a program in the kernel", f"call(321 if {_X86} else 280, 0, bytes(128), 72); escaped()"),
    Escape("count events of the machine", f"escaped(call(298 if {_X86} else 241, bytes(128), 0, -1, -1, 0))"),
    Escape("rings of system calls", "escaped(call(425, 8, bytes(256)))"),
    Escape("System V memory, which stays", f"escaped(call(29 if {_X86} else 194, 0, 4096, 0o1600))"),
)
_NETWORK = (
    Escape("connect over TCP", "socket.create_connection(('127.0.0.1', port), 5).send(b'x'); escaped()"),
    Escape("send a datagram", "socket.socket(2, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9)); escaped()"),
    Escape("an abstract socket outside", "socket.socket(socket.AF_UNIX).connect('\\0' + marker); escaped()"),
    Escape("a socket by its path outside", "socket.socket(socket.AF_UNIX).connect(f'{outside}/socket'); escaped()"),
    Escape(
        "a datagram to a socket outside",
        """
for make in (lambda kind: socket.socket(socket.AF_UNIX, kind), lambda kind: socket.socketpair(socket.AF_UNIX, kind)[0]):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        try:
            make(kind).sendto(b"x", f"{outside}/datagrams")
            escaped()
        except OSError:
            pass
""",
    ),
)
_SHORT = Limits(256 * _MIB, 32, 64 * _MIB, 1)
_SMALL = Limits(256 * _MIB, 32, 64 * _MIB, 20)
_FULL = 'for n in range(1000): open(str(n), "wb").write(bytes(1 << 20))\nescaped()'
_MAPPED = """
libc.mmap.restype = ctypes.c_void_p
for _ in range(60):
    file = os.memfd_create("file") if WHERE == "memory" else os.open("file", os.O_CREAT | os.O_RDWR)
    os.write(file, bytes(5 << 20))
    libc.mmap(None, ctypes.c_size_t(5 << 20), 1, 1, file, ctypes.c_long(0))
    os.close(file)
    WHERE == "memory" or os.unlink("file")
escaped()
"""
_RESOURCES = (
    Escape("too much memory", "kept = []\nwhile True: kept.append(b'x' * (8 << 20))", _SMALL, ended_by="memory"),
    # Bounded by its own code, 512 processes: where nothing held it, the machine must survive.
    Escape("a fork bomb", "for _ in range(9): os.fork()\ntime.sleep(15)\nescaped()", ended_by="processes"),
    Escape(
        "a fork bomb of sessions",
        """
for _ in range(9):
    os.fork() or os.setsid()
time.sleep(15)
escaped()
""",
        ended_by="processes",
    ),
    Escape("a full disk", _FULL, ended_by="wrote"),
    Escape(
        "a full disk of deleted files",
        """
kept = []
for _ in range(1000):
    kept.append(open("file", "wb", 0))
    os.unlink("file")
    kept[-1].write(bytes(1 << 20))
escaped()
""",
        ended_by="wrote",
    ),
    Escape(
        "a full disk in a closed folder",
        f"os.mkdir('d'); os.chdir('d'); os.chmod('.', 0o300)\n{_FULL}",
        ended_by="wrote",
    ),
    Escape(
        "a full disk too deep to see", f"for _ in range(2000): os.mkdir('d'); os.chdir('d')\n{_FULL}", ended_by="it "
    ),
    Escape(
        "a full disk of a program that hides its files",
        """
program = os.open("wait", os.O_CREAT | os.O_WRONLY, 0o111)
os.write(program, open("/bin/sleep", "rb").read())
os.close(program)
for _ in range(20):
    with open("file", "wb", 0) as file:
        os.unlink("file")
        file.write(bytes(5 << 20))
        subprocess.Popen(["./wait", "15"], stdout=file)
escaped()
""",
        ended_by="wrote",
    ),
    Escape("a name that no text can hold", f"libc.prctl(15, b'\\xff)', 0, 0, 0)\n{_FULL}", ended_by="wrote"),
    Escape("a full disk of closed files", _MAPPED.replace("WHERE", "'disk'"), ended_by="wrote"),
    Escape("memory in closed files", _MAPPED.replace("WHERE", "'memory'")),
    Escape("files without end", "for n in range(150_000): open(str(n), 'w')\nescaped()", ended_by="files"),
    Escape(
        "a full disk at once",
        """
place = os.open("file", os.O_CREAT | os.O_WRONLY)
libc.fallocate(place, 1, ctypes.c_long(0), ctypes.c_long(256 << 20))  # FALLOC_FL_KEEP_SIZE
os.fstat(place).st_blocks * 512 >= 256 << 20 and escaped()
""",
    ),
    Escape("a huge file", "open('f', 'wb').truncate(1 << 40); escaped()"),
    Escape("an endless loop", "while True: pass", _SHORT, ended_by="longer"),
    # a fast machine fills the scratch, where the output goes, before the time is over
    Escape("endless output", "while True: os.write(1, b'x' * 65536)", _SHORT, ended_by="longer|wrote"),
)
ESCAPES = (*_FILES, *_PROCESSES, *_RIGHTS, *_NETWORK, *_RESOURCES)
