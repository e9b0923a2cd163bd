"""A model server on loopback: it speaks as the harnesses do, does what prompts tell it, and keeps every request."""

import gzip
import json
import threading
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from lifebus.live.model.conversation import MODEL, Answer, Conversation, arguments_for
from lifebus.live.model.protocols import ChatCompletions, GenerateContent, Messages, ModelProtocol, Responses
from lifebus.live.model.scripting import AGENTS, SHELLS, Scripts, ScriptStep

PATIENCE_S = 60.0
LONGEST_HOLD_S = 120.0

PROTOCOLS: dict[str, ModelProtocol] = {
    "/messages": Messages(),
    "/responses": Responses(),
    "/chat/completions": ChatCompletions(),
    ":generateContent": GenerateContent(),
    ":streamGenerateContent": GenerateContent(),
}


@dataclass(frozen=True)
class Request:
    """One request that the model got: the path, the plain body, and what it says."""

    path: str
    body: dict[str, Any]
    conversation: Conversation


class FakeModel:
    """The running server.  `held` is set when a prompt's `@hold` is reached."""

    def __init__(self, context_window: int) -> None:
        self.context_window = context_window
        self.requests: list[Request] = []
        self.unknown: list[str] = []
        self.held = threading.Event()
        self.closing = threading.Event()
        self.scripts = Scripts()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("_Bound", (_Handler,), {"model": self}))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def wait_held(self) -> None:
        """Wait until a harness waits for the model."""
        if not self.held.wait(PATIENCE_S):
            raise TimeoutError(f"no harness has asked after {PATIENCE_S:g} s")

    def with_text(self, text: str) -> list[Request]:
        """Return the requests in whose conversation this text stands."""
        return [request for request in self.requests if request.conversation.roles_of(text)]

    def close(self) -> None:
        """End the server, and whatever waits for an answer."""
        self.closing.set()
        self._server.shutdown()
        self._thread.join(PATIENCE_S)
        self._server.server_close()


@contextmanager
def fake_model(context_window: int = 200_000) -> Generator[FakeModel]:
    """A model while the block lasts."""
    model = FakeModel(context_window)
    try:
        yield model
    finally:
        model.close()


def _answer(step: ScriptStep, conversation: Conversation) -> Answer:
    names = {"run": SHELLS, "agent": AGENTS}.get(step.deed, ())
    tool = next((name for name in names if name in conversation.tools), "")
    if not tool:
        return Answer(tokens=step.number, text=step.words)
    return Answer(tokens=step.number, tool=tool, arguments=arguments_for(tool, conversation.tools[tool], step.words))


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    model: FakeModel
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class names it so
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._send(200, b"")

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        found = {"id": MODEL, "object": "model", "created": 1, "context_length": self.model.context_window}
        if path.endswith("/models"):
            self._send(200, _json({"object": "list", "data": [found], "has_more": False}))
        elif path.endswith(f"/models/{MODEL}"):
            self._send(200, _json(found))
        else:
            self.model.unknown.append(f"GET {path}")
            self._send(404, b"{}")

    def do_POST(self) -> None:
        body, path = self._body(), self.path.partition("?")[0]
        if path.endswith(("/count_tokens", ":countTokens")):
            count = len(json.dumps(body)) // 4
            self._send(200, _json({"input_tokens": count, "totalTokens": count}))
            return
        protocol = next((one for end, one in PROTOCOLS.items() if path.endswith(end)), None)
        if protocol is None:
            self.model.unknown.append(f"POST {path}")
            self._send(404, b"{}")
            return
        with suppress(BrokenPipeError, ConnectionResetError):  # the harness was killed
            self._converse(protocol, path, body)

    def _converse(self, protocol: ModelProtocol, path: str, body: dict[str, Any]) -> None:
        conversation = protocol.read(body)
        self.model.requests.append(Request(path, body, conversation))
        step = self.model.scripts.step(conversation)
        if step.deed == "hold":
            self.model.held.set()
            self.model.closing.wait(LONGEST_HOLD_S)
        if step.deed == "fail":
            error = {"type": "api_error", "code": step.number, "message": "told to fail"}
            self._send(step.number, _json({"type": "error", "error": error}))
            return
        answer = _answer(step, conversation)
        if body.get("stream") or ":stream" in path:
            self._send(200, protocol.stream(answer, body.get("model", MODEL)), "text/event-stream")
        else:
            self._send(200, _json(protocol.whole(answer, body.get("model", MODEL))))

    def _body(self) -> dict[str, Any]:
        raw = b"".join(self._chunks())
        encoding = self.headers.get("content-encoding", "")
        if encoding == "gzip":
            raw = gzip.decompress(raw)
        elif encoding == "deflate":
            raw = zlib.decompress(raw)
        found: Any = json.loads(raw or b"{}")
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}

    def _chunks(self) -> Iterator[bytes]:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            yield self.rfile.read(int(self.headers.get("content-length") or 0))
            return
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _send(self, status: int, content: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _json(document: Any) -> bytes:
    return json.dumps(document).encode()
