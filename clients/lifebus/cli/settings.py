"""The settings that a command works with where no broker is asked."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lifebus_supervisor.configuration.settings import Settings


def present_settings() -> "Settings":
    """Return the settings of the environment and the configuration file.

    Raises:
        LifebusError: they contradict themselves or cannot be read.
    """
    from lifebus_supervisor.configuration.resolution import load  # noqa: PLC0415  the supervisor's half costs start-up time

    return load()[0]
