"""A local HTTP server for the download tests: serves files from memory, and breaks connections on demand."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class LocalServer:
    """What is served and how: `files` by name; `cut_after` bytes the connection breaks (that many times in `cuts`)."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests = 0
        self.cut_after = 0
        self.cuts = 0
        self.url = ""


def _handler(server: LocalServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = server.files.get(self.path.lstrip("/"))
            server.requests += 1
            if content is None:
                return self.send_error(404)
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if server.cuts:
                server.cuts -= 1
                content = content[: server.cut_after]
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@contextlib.contextmanager
def local_server() -> Iterator[LocalServer]:
    """Run a server on a free port of this machine."""
    state = LocalServer()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(state)) as http:
        state.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield state
        http.shutdown()
        thread.join()


def url_of_nothing() -> str:
    """Return the address of a port on which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"
