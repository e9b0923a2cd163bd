"""A real HTTP server on loopback that keeps what it gets and answers as it is told."""

import queue
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

from support.patience import PATIENCE_S


@dataclass(frozen=True)
class Post:
    """One post as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        """The body as JSON."""
        return msgspec.json.decode(self.body, type=dict[str, Any])


class Receiver:
    """Posts that came, in order; `answer` says by the number of a post with which status and headers it is answered."""

    def __init__(self) -> None:
        self.answer: Callable[[int], tuple[int, dict[str, str]]] = lambda _: (204, {})
        self.posts: list[Post] = []
        self.port = 0
        self._arrived: queue.Queue[Post] = queue.Queue()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}/hook?from=test"

    def next(self, seconds: float = PATIENCE_S) -> Post:
        """Return the next post, once it has come and was answered."""
        try:
            return self._arrived.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"no post came within {seconds:g} s") from None

    def _take(self, post: Post) -> tuple[int, dict[str, str]]:
        self.posts.append(post)
        return self.answer(len(self.posts))


@contextmanager
def receiving(certificate: Path | None = None) -> Generator[Receiver]:
    """Run a receiver; with a file that holds a certificate and its key, over TLS."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            post = Post(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            status, headers = receiver._take(post)
            self.send_response(status)
            for name, value in {"Content-Length": "0", **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            receiver._arrived.put(post)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        # A client that does not trust it hangs up in the middle of the handshake.
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
