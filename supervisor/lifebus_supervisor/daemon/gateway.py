"""The gateway of a broker, if it has one: made of the API and of what says that something was recorded."""

import os
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import anyio.to_thread
import msgspec
import structlog

from lifebus_broker.ledger.records import append_records, pages_of
from lifebus_broker.ports import NewRecord
from lifebus_broker.signals.order_positions import KeptPositions
from lifebus_broker.state.sealed import SealedItems
from lifebus_contract import LifebusError
from lifebus_supervisor.configuration.file import ConfigurationError
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.daemon.own_commands import CommandReports
from lifebus_transports.processes.once import Commands

if TYPE_CHECKING:
    from lifebus_transports.http.ports import ReceiptsRecorded, SignalsRecorded
    from lifebus_transports.http.server import Serving

ADDRESS: Final = "gateway.json"
"""The file in the runtime directory that says where the gateway is; it is there while the gateway listens."""

_ORDER: Final = "signal-order"
_LAST_PORT: Final = "gateway.port"
_MAX_PORT: Final = 65_535

_log = structlog.get_logger("lifebus.gateway")


class _Recorded:
    """What the gateway listens to."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def receipts(self, listener: "ReceiptsRecorded", /) -> None:
        self._daemon.bus.fanout.listen(listener)

    def signals(self, listener: "SignalsRecorded", /) -> None:
        self._daemon.signals.listen(listener)

    async def kept(self) -> list[tuple[str, str, int, int]]:
        signals = self._daemon.signals
        threads = [(adapter, thread) for adapter, thread, _ in await signals.kept_threads()]
        return [
            (adapter, thread, tip.floor, tip.head)
            for adapter, thread in threads
            for tip in await signals.threads(adapter, thread)
        ]


class _OrderJournal:
    """Where the gateway keeps the order of all signals: a stream of the ledger's journal."""

    def __init__(self, daemon: Daemon) -> None:
        self._journal = daemon.bus.ledger.journal
        self.epoch = daemon.signals.epoch

    async def load(self) -> list[tuple[int, bytes]]:
        return [(one.number, one.body) async for page in pages_of(self._journal, _ORDER) for one in page.records]

    async def append(self, body: bytes) -> int:
        numbers: list[int] = []
        await append_records(
            self._journal, [NewRecord(_ORDER, body)], lambda written: numbers.extend(one.number for one in written)
        )
        return numbers[0]

    async def drop(self, through: int) -> None:
        await self._journal.drop(_ORDER, through)


@asynccontextmanager
async def open_gateway(daemon: Daemon) -> AsyncGenerator[None]:
    """Serve the gateway within the block.

    Raises:
        ConfigurationError: it cannot start as the settings say.
    """
    settings = daemon.settings
    async with AsyncExitStack() as stack:
        try:
            others = await anyio.to_thread.run_sync(daemon.bus.ledger.new_sealed_items)
            gateway = await stack.enter_async_context(_serving(daemon, others))
        except LifebusError as fault:
            # Whoever started the broker has to change something: it is not started without what was asked for.
            raise ConfigurationError([fault.detail]) from fault
        address = settings.runtime_dir / ADDRESS
        stack.callback(address.unlink, missing_ok=True)
        where = {"url": gateway.url, "tokenFile": str(gateway.token_file)}
        _write(address, msgspec.json.encode(where))
        _write(settings.state_dir / _LAST_PORT, f"{gateway.port}\n".encode())
        _log.info("gateway_ready", url=gateway.url)
        yield


def _serving(daemon: Daemon, others: SealedItems) -> "AbstractAsyncContextManager[Serving]":
    """Return the gateway; `others` keeps up to where each thread is in its order, of those that are silent.

    Raises:
        LifebusError: `gateway_missing`: its libraries are not installed.
    """
    try:
        # Imported only here: who has no gateway neither waits for its libraries nor needs them.
        from lifebus_transports.http.ports import Backend  # noqa: PLC0415
        from lifebus_transports.http.server import serving  # noqa: PLC0415
    except ModuleNotFoundError as fault:
        raise LifebusError(
            f"the gateway needs {fault.name}; run: pip install 'lifebus[http]'", code="gateway_missing"
        ) from fault
    settings = daemon.settings
    sessions = daemon.sessions

    def kind_of(session_id: str) -> Literal["user", "system", "deleted"]:
        # Where nothing was ever done with sessions, none is marked.
        return "user" if sessions.made is None else sessions.made.transcripts.marks.kind_of(session_id).value

    return serving(
        settings.gateway,
        token_file_of(settings),
        backend=Backend(
            calls=daemon.api,
            recorded=_Recorded(daemon),
            order=_OrderJournal(daemon),
            positions=KeptPositions(others),
            kind_of=kind_of,
            has_queue=settings.queue.enabled,
            metrics=daemon.metrics,
            reports=CommandReports(settings, Commands(daemon.tasks).run_once),
        ),
        tasks=daemon.tasks,
        counters=daemon.gateway,
        environ=os.environ,
        last_port=_last_port(settings.state_dir / _LAST_PORT),
    )


def _last_port(path: Path) -> int:
    """Return the port of the gateway before, 0 where that is not known."""
    try:
        text = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(text) if text.isdecimal() and int(text) <= _MAX_PORT else 0


def token_file_of(settings: Settings) -> Path:
    """Return the file with the gateway's token."""
    file = settings.gateway.token_file
    return settings.state_dir / "gateway.token" if file == "auto" else Path(file).expanduser()


def _write(path: Path, contents: bytes) -> None:
    """Write a file that is there as a whole or not at all, in a private directory."""
    draft = path.with_name(f".{path.name}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(contents)
    draft.replace(path)
