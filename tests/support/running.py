"""Running brokers for tests: enter them inside the test, never across a fixture's yield."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import TypeVar

import anyio

import lifebus
from lifebus_supervisor.configuration.settings import (
    LedgerSettings,
    LimitSettings,
    PrivacySettings,
    RetentionSettings,
    ScrubSettings,
    Settings,
    SignalSettings,
    TelemetrySettings,
    TickSettings,
)
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.daemon.lifecycle import running
from lifebus_supervisor.extensions.settings import ExtensionSettings
from support.parts import running_whole
from support.patience import PATIENCE_S

T = TypeVar("T")


@contextmanager
def short_directory(where: str | None = None) -> Iterator[Path]:
    """A private directory whose path is short enough for a socket; `where` is the directory to make it in."""
    path = Path(tempfile.mkdtemp(prefix="lb-", dir=where))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def settings_in(
    directory: Path,
    *,
    backend: str = "sqlite",
    signals: SignalSettings | None = None,
    retention: RetentionSettings | None = None,
    extensions: ExtensionSettings | None = None,
    privacy: PrivacySettings | None = None,
    **limits: int,
) -> Settings:
    """Settings of a broker that does nothing by itself: no ticks, and no look at anybody's telemetry."""
    return Settings(
        runtime_dir=directory / "run",
        state_dir=directory / "state",
        ledger=LedgerSettings(backend="memory" if backend == "memory" else "sqlite"),
        limits=LimitSettings(beacon_ms=limits.pop("beacon_ms", 50), **limits),
        signals=signals or SignalSettings(),
        retention=retention or RetentionSettings(),
        scrub=ScrubSettings(every_h=0),
        ticks=TickSettings(enabled=False),
        telemetry=TelemetrySettings(enabled=False),
        extensions=extensions or ExtensionSettings(roots=()),
        privacy=privacy or PrivacySettings(),
    )


@asynccontextmanager
async def running_bus(
    *,
    backend: str = "sqlite",
    directory: Path | None = None,
    signals: SignalSettings | None = None,
    retention: RetentionSettings | None = None,
    extensions: ExtensionSettings | None = None,
    privacy: PrivacySettings | None = None,
    whole: bool = False,
    **limits: int,
) -> AsyncIterator[Daemon]:
    """A broker in this process with all its doors open, in a directory of its own unless one is given.

    With `whole`, all its parts are made at once.
    """
    with short_directory() if directory is None else nullcontext(directory) as home:
        settings = settings_in(
            home,
            backend=backend,
            signals=signals,
            retention=retention,
            extensions=extensions,
            privacy=privacy,
            **limits,
        )
        async with running_whole(settings) if whole else running(settings) as daemon:
            yield daemon


@asynccontextmanager
async def connected(daemon: Daemon, client_id: str = "test") -> AsyncIterator[lifebus.Bus]:
    """A client of a running broker, which waits for answers as long as a test does."""
    async with lifebus.connect(client_id, runtime_dir=daemon.settings.runtime_dir, timeout=PATIENCE_S) as bus:
        yield bus


async def until_answered(ask: Callable[[], Awaitable[T]], wanted: Callable[[T], object]) -> T:
    """Ask until the answer is the one that is waited for, and return it; the deadline is the caller's."""
    while not wanted(answer := await ask()):  # noqa: ASYNC110  another process raises no event here
        await anyio.sleep(0.01)  # asking as fast as one can takes the processor from what is waited for
    return answer
