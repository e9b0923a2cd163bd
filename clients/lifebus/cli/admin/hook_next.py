"""What comes after hooks were installed: a broker that takes their calls, and a first try."""

import sys
from typing import Final

from lifebus.cli.terminal import paint, put

_TRY: Final = "Try every hook: lifebus hooks test."
_QUESTION: Final = "No broker runs. Have it run now, and at every login?"


def propose_next(*, asks: bool) -> None:
    """Say what to do next; with `asks` offer the service where no broker runs and there is a service manager.

    Raises:
        LifebusError: the service was wanted and cannot be installed.
    """
    from lifebus.cli.connection import present_settings  # noqa: PLC0415
    from lifebus_admin.service.processes import holder_of  # noqa: PLC0415

    if holder_of(present_settings().runtime_dir) is not None or (
        asks and sys.stdin.isatty() and _can_be_installed() and _wanted()
    ):
        _say(_TRY)
    else:
        _say(f"Start the broker: lifebus up, or at every login: lifebus service install. {_TRY}")


def _say(sentence: str) -> None:
    put(f"{paint('next:', 'bold')} {sentence}")


def _can_be_installed() -> bool:
    from lifebus_admin.service.managers import find_manager  # noqa: PLC0415
    from lifebus_contract import LifebusError  # noqa: PLC0415

    try:
        return not find_manager().path.exists()
    except LifebusError:  # without a service manager there is nothing to offer
        return False


def _wanted() -> bool:
    """Ask, install the service where the answer is yes, and return whether its broker runs."""
    from lifebus.cli.admin.service import install  # noqa: PLC0415
    from lifebus.cli.confirm import confirm  # noqa: PLC0415
    from lifebus.cli.exit_codes import ExitCode  # noqa: PLC0415

    return confirm(_QUESTION, json=False) and install() is ExitCode.OK
