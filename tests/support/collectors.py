"""Collectors that tests start, and what they were sent."""

import base64
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from support.patience import PATIENCE_S

PROGRAM = Path(__file__).parent / "otlp_collector.py"


@dataclass(frozen=True)
class Request:
    """What a collector was sent, and with which status it answered; 0 where it hung up."""

    path: str
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def spans(self) -> list[Span]:
        """The spans in it."""
        found = ExportTraceServiceRequest()
        if self.path == "/v1/traces":
            found.ParseFromString(self.body)
        return [span for whole in found.resource_spans for scope in whole.scope_spans for span in scope.spans]

    @property
    def records(self) -> list[LogRecord]:
        """The log records in it."""
        found = ExportLogsServiceRequest()
        if self.path == "/v1/logs":
            found.ParseFromString(self.body)
        return [one for whole in found.resource_logs for scope in whole.scope_logs for one in scope.log_records]

    @property
    def origin(self) -> dict[str, object]:
        """The attributes of its resource."""
        traces, logs = ExportTraceServiceRequest(), ExportLogsServiceRequest()
        if self.path == "/v1/traces":
            traces.ParseFromString(self.body)
            return values(list(traces.resource_spans[0].resource.attributes))
        logs.ParseFromString(self.body)
        return values(list(logs.resource_logs[0].resource.attributes))


@dataclass
class Collector:
    """A collector that runs, and the requests that it had so far."""

    port: int
    lines: "queue.Queue[str]"
    requests: list[Request] = field(default_factory=list[Request])

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def next(self) -> Request:
        """Wait for one more request."""
        try:
            line = json.loads(self.lines.get(timeout=PATIENCE_S))
        except queue.Empty:
            raise AssertionError(f"no request came within {PATIENCE_S:g} s") from None
        found = Request(line["path"], line["status"], line["headers"], base64.b64decode(line["body"]))
        self.requests.append(found)
        return found

    @property
    def spans(self) -> list[Span]:
        """The spans that it has taken."""
        return [span for one in self.requests if one.status == 200 for span in one.spans]

    @property
    def records(self) -> list[LogRecord]:
        """The log records that it has taken."""
        return [record for one in self.requests if one.status == 200 for record in one.records]


@contextmanager
def collecting(plan: str = "", port: int = 0) -> Generator[Collector]:
    """Run a collector inside a block; with a port, where one was before."""
    argv = [sys.executable, str(PROGRAM), str(port), plan]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        collector = Collector(int(process.stdout.readline()), queue.Queue())
        reader = threading.Thread(target=_read, args=(process.stdout, collector.lines))
        reader.start()
        try:
            yield collector
        finally:
            process.kill()
            reader.join()


def _read(stdout: IO[str], lines: "queue.Queue[str]") -> None:
    for line in stdout:
        lines.put(line)


def values(pairs: list[KeyValue]) -> dict[str, object]:
    """Return attributes by name."""
    return {pair.key: _plain(pair.value) for pair in pairs}


def _plain(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(one) for one in value.array_value.values]
    return None if kind is None else getattr(value, kind)
