"""Where lifebus keeps its files for this user, by the same rules as the hook.  Pure.

See docs/configuration.md, "Other variables".

A relative path in an XDG variable is ignored, as the XDG specification asks.
"""

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from lifebus_transports.own_directories import RUNTIME, STATE, own_directory


def home_directory(environ: Mapping[str, str] | None = None) -> Path:
    """Return the user's home directory; the account's own where `HOME` is not an absolute path."""
    given = (os.environ if environ is None else environ).get("HOME", "")
    # Services may run without `HOME`.
    return Path(given if given.startswith("/") else pwd.getpwuid(os.geteuid()).pw_dir)


def default_runtime_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return the directory of the sockets: `LIFEBUS_RUNTIME_DIR`, else `lifebus` below `XDG_RUNTIME_DIR`."""
    return _directory(environ, *RUNTIME)


def default_state_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return the directory of ledger and spool: `LIFEBUS_STATE_DIR`, else `lifebus` below `XDG_STATE_HOME`."""
    return _directory(environ, *STATE)


def default_data_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return the directory of what is installed: `LIFEBUS_DATA_DIR`, else `lifebus` below `XDG_DATA_HOME`."""
    return _directory(environ, "LIFEBUS_DATA_DIR", "XDG_DATA_HOME", "lifebus", ".local/share/lifebus")


def default_config_path(environ: Mapping[str, str] | None = None) -> Path:
    """Return the configuration file: `LIFEBUS_CONFIG`, else `lifebus/config.toml` below `XDG_CONFIG_HOME`."""
    return _directory(
        environ, "LIFEBUS_CONFIG", "XDG_CONFIG_HOME", "lifebus/config.toml", ".config/lifebus/config.toml"
    )


def _directory(environ: Mapping[str, str] | None, own: str, xdg: str, below_xdg: str, below_home: str) -> Path:
    variables = os.environ if environ is None else environ
    found = own_directory(variables, own, xdg, below_xdg, below_home)
    return Path(found) if found else home_directory(variables) / below_home
