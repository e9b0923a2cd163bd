"""The rules of where lifebus keeps its files, by the environment alone and without any library.  Pure."""

TYPE_CHECKING = False  # `typing` would be a third of a command that uses this
if TYPE_CHECKING:
    from collections.abc import Mapping

RUNTIME = ("LIFEBUS_RUNTIME_DIR", "XDG_RUNTIME_DIR", "lifebus", ".local/state/lifebus/run")
STATE = ("LIFEBUS_STATE_DIR", "XDG_STATE_HOME", "lifebus", ".local/state/lifebus")
"""The variable that names a directory, the one that names what it lies in, where it lies there, and below a home."""


def runtime_directory(environ: "Mapping[str, str]") -> str:
    """Return the directory of the sockets; empty without a home."""
    return own_directory(environ, *RUNTIME)


def state_directory(environ: "Mapping[str, str]") -> str:
    """Return the directory of ledger and spool; empty without a home."""
    return own_directory(environ, *STATE)


def own_directory(environ: "Mapping[str, str]", own: str, xdg: str, below_xdg: str, below_home: str) -> str:
    """Return a directory by these variables; empty where they name none and `HOME` is no absolute path."""
    given, base, home = (environ.get(name, "") for name in (own, xdg, "HOME"))
    if given:
        return given
    if base.startswith("/"):
        return f"{base}/{below_xdg}"
    return f"{home}/{below_home}" if home.startswith("/") else ""
