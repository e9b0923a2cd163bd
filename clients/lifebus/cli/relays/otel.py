"""`lifebus otel`: receipts as traces and logs of OpenTelemetry, posted to a collector."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions
from lifebus.cli.choices import Adapters, parse_adapters
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.read.positions import parse_start
from lifebus.cli.terminal import say
from lifebus_contract import LifebusError

if TYPE_CHECKING:
    from lifebus import Bus
    from lifebus.cli.relays.otel_export import OtlpSignal
    from lifebus_supervisor.traces.endpoints import Endpoint
    from lifebus_supervisor.traces.spans import Attributes

_MOST: Final = 512
_EXTRA: Final = frozenset({"opentelemetry", "google"})


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OtelOptions:
    """What is exported, and where to."""

    adapter: Adapters = ()
    "Only sessions of this harness."
    endpoint: str | None = None
    "The collector's address; default: what OTEL_EXPORTER_OTLP_ENDPOINT says, or http://localhost:4318."
    headers_file: str | None = None
    "Headers of each post, name=value, in a file that only you may read; default: OTEL_EXPORTER_OTLP_HEADERS."
    insecure: bool = False
    "Post over http to another machine, too."

    def endpoints(self) -> "list[Endpoint]":
        """Return where each signal is posted to.

        Raises:
            UsageError: a flag or a variable says something that cannot be done.
            LifebusError: the file of headers cannot be read.
        """
        from lifebus_supervisor.traces.endpoints import endpoints  # noqa: PLC0415

        try:
            found = endpoints(os.environ, self.endpoint, self._headers())
        except ValueError as fault:
            raise UsageError(str(fault)) from None
        if not found:
            raise UsageError("OTEL_TRACES_EXPORTER and OTEL_LOGS_EXPORTER are both none: nothing is left to export")
        for one in found:
            self._check(one.url)
        return found

    def _headers(self) -> str | None:
        if self.headers_file is None:
            return None
        try:
            return Path(self.headers_file).read_text(encoding="utf-8")
        except (OSError, UnicodeError):
            raise LifebusError(f"--headers-file: {self.headers_file} cannot be read", code="unreadable") from None

    def _check(self, url: str) -> None:
        from lifebus.cli.tools.notify_channels import check_address  # noqa: PLC0415

        try:
            check_address(url)
        except ValueError as fault:
            if not (self.insecure and url.startswith("http://")):
                raise UsageError(f"the collector's address: {fault}, or give --insecure") from None


_ALL: Final = OtelOptions()


def otel(
    *,
    name: str = "otel",
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    options: OtelOptions = _ALL,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Export turns as traces, and receipts as logs, to a collector of OpenTelemetry until it is stopped.

    Each span is sent when it has ended, at least once, with the same id whenever it is sent. The broker remembers under
    the name what was sent, over restarts of either. The variables OTEL_EXPORTER_OTLP_…, OTEL_SERVICE_NAME and
    OTEL_RESOURCE_ATTRIBUTES are heeded. It needs the extra lifebus[otel].

    Args:
        name: The consumer's name; each collector needs its own. Default: otel.
        from_: Where a new name begins: a POSITION, an EPOCH:POSITION, or `start`; without it at what comes.
        options: What is exported, and where to.
        connection: Where the broker is.
    """
    signals, origin = _signals(options.endpoints()), _origin()
    adapters = frozenset(parse_adapters(options.adapter))
    since = None if from_ is None else parse_start(from_)
    where = " and ".join(dict.fromkeys(one.endpoint.url for one in signals.values()))

    async def work(bus: "Bus") -> ExitCode:
        import anyio  # noqa: PLC0415

        from lifebus.cli.bus.serve import cancel_on_signal  # noqa: PLC0415
        from lifebus.cli.relays.otel_export import Exporter  # noqa: PLC0415
        from lifebus.cli.relays.relay import Relay  # noqa: PLC0415

        exporter = Exporter(bus, signals, origin, adapters)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_on_signal, tasks.cancel_scope)
            relay = Relay(bus, name, exporter.send, most=_MOST, since=since)
            await relay.run(lambda: say(f"exporting to {where} as {name}; Ctrl-C stops", color="dim"))
        return ExitCode.OK

    return on_bus(connection, work, client_id=name, lasting=True)


def _signals(endpoints: "Sequence[Endpoint]") -> "dict[str, OtlpSignal]":
    from lifebus.cli.relays.otel_export import signals_to  # noqa: PLC0415

    try:
        return signals_to(endpoints)
    except ModuleNotFoundError as fault:
        if (fault.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise UsageError("lifebus otel needs the extra; run: pip install 'lifebus[otel]'") from None


def _origin() -> "tuple[Attributes, str]":
    from lifebus_supervisor.traces.endpoints import resource  # noqa: PLC0415
    from lifebus_supervisor.version import VERSION  # noqa: PLC0415

    try:
        return resource(os.environ, VERSION), VERSION
    except ValueError as fault:
        raise UsageError(str(fault)) from None
