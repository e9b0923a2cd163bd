"""Whose directories hooks are installed into, and for which harnesses there are some."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lifebus.cli.connection import present_settings

if TYPE_CHECKING:
    from lifebus_admin.harnesses.target import HostEnvironment


def harness_names() -> list[str]:
    """Return the harnesses that lifebus can be installed for."""
    from lifebus_adapters import ADAPTERS  # noqa: PLC0415

    return list(ADAPTERS)


def place_here() -> "HostEnvironment":
    """Return this user's directories.

    Raises:
        LifebusError: the settings are wrong.
    """
    return _place(present_settings().state_dir)


def place_to_inspect(environ: Mapping[str, str] = os.environ) -> "HostEnvironment":
    """Return this user's directories for who only looks: without the settings, which take longer than the look.

    Raises:
        LifebusError: the settings are wrong.
    """
    from lifebus_transports.directories import default_state_dir  # noqa: PLC0415

    directory = default_state_dir(environ)
    # The settings take it from the environment alone, too, and expand or refuse it where it is no absolute path.
    return _place(directory, environ) if directory.is_absolute() else place_here()


def _place(state_dir: Path, environ: Mapping[str, str] = os.environ) -> "HostEnvironment":
    from lifebus_adapters.shared.telemetry import Surroundings  # noqa: PLC0415
    from lifebus_admin.harnesses.target import HostEnvironment, real_python  # noqa: PLC0415
    from lifebus_transports.directories import default_data_dir, home_directory  # noqa: PLC0415

    hook, wrapper = (path.read_text("utf-8") for path in copied_sources())
    return HostEnvironment(
        surroundings=Surroundings(home=str(home_directory(environ)), environ=environ),
        data_dir=default_data_dir(environ).absolute(),
        state_dir=state_dir,
        # Hooks outlive the virtual environment that installed them.
        python=real_python(),
        hook=hook,
        wrapper=wrapper,
    )


def copied_sources() -> tuple[Path, Path]:
    """Return the sources that an installation copies: of the hook, and of the launcher wrapper."""
    import lifebus  # noqa: PLC0415

    return Path(lifebus.__file__).with_name("hook.py"), Path(lifebus.__file__).with_name("wrapper.py")
