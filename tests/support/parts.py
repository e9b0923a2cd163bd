"""Brokers whose parts are made at once, for tests of the parts: others are made at their first use."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.daemon.flow_work import FlowWork
from lifebus_supervisor.daemon.lifecycle import running
from lifebus_supervisor.daemon.session_work import SessionWork


@asynccontextmanager
async def running_whole(settings: Settings) -> AsyncGenerator[Daemon]:
    """Start a broker and have all its parts made."""
    async with running(settings) as daemon:
        await make_whole(daemon)
        yield daemon


async def make_whole(daemon: Daemon) -> None:
    """Have all parts of a broker made."""
    await daemon.sessions.use()
    await daemon.flows.use()


def sessions_of(daemon: Daemon) -> SessionWork:
    """Return what works on sessions in a broker that has it."""
    assert daemon.sessions.made is not None
    return daemon.sessions.made


def flows_of(daemon: Daemon) -> FlowWork:
    """Return flows and inbox of a broker that has them."""
    assert daemon.flows.made is not None
    return daemon.flows.made
