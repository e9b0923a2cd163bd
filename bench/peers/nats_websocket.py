"""NATS with its WebSocket listener: what is published goes to a file of JetStream and to every subscriber."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.peers.jetstream import JetStream
from bench.peers.process import find_program, free_port, server, workspace

_CONFIG = """
host: "127.0.0.1"
port: {port}
websocket {{ host: "127.0.0.1", port: {web}, no_tls: true }}
jetstream {{ store_dir: "{folder}", sync_interval: always }}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsWeb:
    """A running server: its publisher, and the port of its WebSocket."""

    publisher: JetStream
    port: int


@contextmanager
def running() -> Iterator[NatsWeb | None]:
    """Provide a NATS server of our own that syncs every write; None where it is not installed."""
    program = find_program("nats-server")
    if program is None:
        yield None
        return
    port, web = free_port(), free_port()
    with workspace() as folder:
        config = folder / "nats.conf"
        config.write_text(_CONFIG.format(port=port, web=web, folder=folder))
        with server([program, "-c", str(config)], port, folder / "log") as pid:
            yield NatsWeb(publisher=JetStream(port, pid, always=True), port=web)
