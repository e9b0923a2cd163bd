"""Callback clients that are commands: the `[[clients]]` of the configuration, registered and kept."""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from anyio.abc import TaskGroup

from lifebus_broker.ports import Evidence
from lifebus_broker.routing.clients import CallbackClient, ClientTable, Invoker
from lifebus_contract import DeadlineExceeded, DispatchEnvelope, LifebusError
from lifebus_supervisor.configuration.settings import ClientSettings, Settings
from lifebus_transports.adapter_names import adapter_id_of
from lifebus_transports.messages.common import RefusalInfo
from lifebus_transports.messages.workers import COMMAND, Response
from lifebus_transports.processes.fresh import FreshInvoker
from lifebus_transports.processes.once import Commands
from lifebus_transports.processes.spec import CommandSpec
from lifebus_transports.processes.warm import WarmInvoker

# Which part of a deadline, at most so many seconds, is left for an answer's way to the broker
_WAY_BACK: Final = 0.1

# Where commands of the broker run: never where it happened to be started
_CWD: Final = "/"


def add_command_clients(settings: Settings, clients: ClientTable, tasks: TaskGroup) -> None:
    """Register the configured commands as callback clients; `tasks` owns their children, those that stay start now."""
    commands = Commands(tasks)
    for one in settings.clients:
        clients.add(
            CallbackClient(
                client_id=one.client_id,
                events=frozenset(one.events),
                invoker=_configured(one, settings, commands, tasks),
                requirements=one.requirements,
                adapters=frozenset(map(adapter_id_of, one.adapters)),
                deadline=one.deadline_ms / 1000,
                kind=COMMAND,
                background=one.background,
            )
        )


def invoker_of(spec: CommandSpec, protocol: str, workers: int, commands: Commands, tasks: TaskGroup) -> Invoker:
    """Return the invoker of a command: a new child for each dispatch, or workers that stay."""
    if protocol == "oneshot":
        return FreshInvoker(spec, workers, commands)
    return WarmInvoker(spec, "msgpack" if protocol == "msgpack" else "jsonl", workers, tasks)


def answering(invoker: Invoker, seconds: float) -> Callable[[DispatchEnvelope], Awaitable[Response]]:
    """Return a worker's handler that runs a command; it answers before the broker's `seconds` are over."""
    # A proportion for short deadlines, at most a tenth of a second for long ones.
    bound = seconds - min(_WAY_BACK, _WAY_BACK * seconds)

    async def answer(envelope: DispatchEnvelope) -> Response:
        evidence: Evidence = {}
        fault: LifebusError
        try:
            with anyio.fail_after(bound):
                return Response(response=await invoker.invoke(envelope, evidence), evidence=evidence)
        except TimeoutError:
            fault = DeadlineExceeded(f"the command did not answer within {bound:g} s", code="deadline")
        except LifebusError as refused:
            fault = refused
        return Response(refusal=RefusalInfo.of(fault), evidence=evidence)

    return answer


def _configured(one: ClientSettings, settings: Settings, commands: Commands, tasks: TaskGroup) -> Invoker:
    spec = CommandSpec(
        argv=one.command,
        passing=one.environment,
        setting={
            "LIFEBUS_CLIENT_ID": one.client_id,
            "LIFEBUS_RUNTIME_DIR": str(settings.runtime_dir),
            "LIFEBUS_STATE_DIR": str(settings.state_dir),
        },
        cwd=_CWD,
    )
    return invoker_of(spec, one.protocol, one.workers, commands, tasks)
