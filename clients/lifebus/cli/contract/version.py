"""`lifebus version`."""

import platform

from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import put, put_json


def version(*, json: bool = False) -> ExitCode:
    """Print the version of lifebus, of the contract it speaks, and of Python.

    Args:
        json: Answer in JSON, with the versions of SQLite and ZeroMQ too.
    """
    from lifebus_contract import CONTRACT_VERSION  # noqa: PLC0415
    from lifebus_supervisor.version import VERSION  # noqa: PLC0415

    # Prompts ask for the plain line often: SQLite and ZeroMQ are loaded for JSON only.
    if not json:
        put(f"lifebus {VERSION} (contract {CONTRACT_VERSION}, Python {platform.python_version()})")
        return ExitCode.OK
    import zmq  # noqa: PLC0415

    from lifebus_admin.inspection import sqlite_version  # noqa: PLC0415

    versions = {"lifebus": VERSION, "contract": CONTRACT_VERSION, "python": platform.python_version()}
    put_json({**versions, "sqlite": sqlite_version(), "zeromq": zmq.zmq_version()})
    return ExitCode.OK
