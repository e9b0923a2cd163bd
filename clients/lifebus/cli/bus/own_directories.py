"""Where lifebus keeps its files, by the rules of `lifebus_transports.directories`, without a library."""

TYPE_CHECKING = False  # `typing` would be a third of a command that uses this
if TYPE_CHECKING:
    from collections.abc import Mapping


def runtime_directory(environ: "Mapping[str, str]") -> str:
    """Return the directory of the sockets; empty without a home."""
    return _directory(environ, "LIFEBUS_RUNTIME_DIR", "XDG_RUNTIME_DIR", "lifebus", ".local/state/lifebus/run")


def state_directory(environ: "Mapping[str, str]") -> str:
    """Return the directory of ledger and spool; empty without a home."""
    return _directory(environ, "LIFEBUS_STATE_DIR", "XDG_STATE_HOME", "lifebus", ".local/state/lifebus")


def _directory(environ: "Mapping[str, str]", own: str, xdg: str, below_xdg: str, below_home: str) -> str:
    given, base, home = (environ.get(name, "") for name in (own, xdg, "HOME"))
    if given:
        return given
    if base.startswith("/"):
        return f"{base}/{below_xdg}"
    return f"{home}/{below_home}" if home.startswith("/") else ""
