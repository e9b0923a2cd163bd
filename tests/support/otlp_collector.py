"""A collector of OpenTelemetry as a process: OTLP/HTTP with Protocol Buffers, and failures in the order of a plan.

It prints its port, then a line of JSON for each request: the path, the status it answered, and what it was sent.
A plan is words with commas between, one for each request: a status, `429+2` with seconds to wait, `partial`, `hang-up`.
"""

import base64
import gzip
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

REQUESTS: Final[dict[str, Any]] = {"/v1/traces": ExportTraceServiceRequest, "/v1/logs": ExportLogsServiceRequest}
ANSWERS: Final[dict[str, Any]] = {"/v1/traces": ExportTraceServiceResponse, "/v1/logs": ExportLogsServiceResponse}
REASON: Final = "too many attributes"


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    plan: list[str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        word = self.plan.pop(0) if self.plan else "200"
        if word == "hang-up":
            self._print(headers, body, 0)
            self.close_connection = True
            return
        status, _, wait = ("200" if word == "partial" else word).partition("+")
        document = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        if self.path not in REQUESTS:
            status = "404"
        elif not self._is_readable(headers, document):
            status = "400"
        # Printed first: whoever reads the answer finds what was taken.
        self._print(headers, document, int(status))
        self._answer(
            int(status), wait, ANSWERS.get(self.path, ExportTraceServiceResponse)(), is_partial=word == "partial"
        )

    def _is_readable(self, headers: dict[str, str], document: bytes) -> bool:
        try:
            REQUESTS[self.path]().ParseFromString(document)
        except DecodeError:
            return False
        return headers["content-type"] == "application/x-protobuf"

    def _answer(self, status: int, wait: str, answer: Any, *, is_partial: bool) -> None:
        if is_partial:
            field = "rejected_spans" if self.path.endswith("traces") else "rejected_log_records"
            setattr(answer.partial_success, field, 1)
            answer.partial_success.error_message = REASON
        sent = answer.SerializeToString()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-protobuf")
        if wait:
            self.send_header("Retry-After", wait)
        # Both ways by which servers say how long an answer is.
        if is_partial:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(sent), sent))
        else:
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

    def _print(self, headers: dict[str, str], body: bytes, status: int) -> None:
        line = {"path": self.path, "status": status, "headers": headers, "body": base64.b64encode(body).decode()}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def main() -> None:
    port, plan = int(sys.argv[1]), sys.argv[2]
    Handler.plan = [word for word in plan.split(",") if word]
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
