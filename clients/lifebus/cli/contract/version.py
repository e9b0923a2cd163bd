"""`lifebus version`."""

import platform
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import clean, put, put_json

if TYPE_CHECKING:
    from lifebus_transports.messages.status import BrokerStatus


def version(
    *,
    everything: Annotated[bool, Parameter(name="--all")] = False,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Print the version of lifebus, of the contract it speaks, and of Python.

    Args:
        everything: Print those of SQLite, libzmq, every dependency and the running broker, too.
        connection: Where the broker is, and the form of the answer; JSON has the versions of SQLite and ZeroMQ too.
    """
    from lifebus_contract import CONTRACT_VERSION  # noqa: PLC0415
    from lifebus_supervisor.version import VERSION  # noqa: PLC0415

    # Prompts ask for the plain line often: nothing else is loaded for it.
    if not (everything or connection.json):
        put(f"lifebus {VERSION} (contract {CONTRACT_VERSION}, Python {platform.python_version()})")
        return ExitCode.OK
    import zmq  # noqa: PLC0415

    from lifebus_admin.inspection import sqlite_version  # noqa: PLC0415

    found: dict[str, Any] = {"lifebus": VERSION, "contract": CONTRACT_VERSION, "python": platform.python_version()}
    found |= {"sqlite": sqlite_version(), "zeromq": zmq.zmq_version()}
    if everything:
        from lifebus_supervisor.version import dependency_versions  # noqa: PLC0415

        found |= {"dependencies": dependency_versions(), "broker": _broker(connection)}
    if connection.json:
        put_json(found)
    else:
        _show(found)
    return ExitCode.OK


def _broker(connection: ConnectionOptions) -> dict[str, Any]:
    """Return the versions of the running broker, which an update does not change; or why there are none."""
    from lifebus.cli.connection import on_bus  # noqa: PLC0415
    from lifebus_contract import LifebusError  # noqa: PLC0415

    try:
        status: BrokerStatus = on_bus(connection, lambda bus: bus.status())
    except LifebusError as fault:
        return {"lacking": fault.detail}
    versions = {"lifebus": status.version, "contract": status.contract_version, "sqlite": status.ledger.library}
    return {**versions, "pid": status.pid}


def _show(found: dict[str, Any]) -> None:
    broker: dict[str, Any] = found.pop("broker")
    dependencies: dict[str, str] = found.pop("dependencies")
    rows = {**found, **dependencies}
    said = broker.get("lacking") or ", ".join(f"{name} {value}" for name, value in broker.items())
    width = max(map(len, rows)) + 1
    for name, value in {**rows, "broker": said}.items():
        put(f"{name.ljust(width)} {clean(str(value))}")
