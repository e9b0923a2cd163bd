"""Settings from flags, environment, configuration file and defaults, each with its origin (docs/configuration.md).

A flag wins over the environment, the environment over the file, the file over the default.  Nothing is read from
the project directory, so relative paths are for flags only.  The two directories are not read from the file:
hooks and clients find the broker by the environment alone, and would search elsewhere.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

import msgspec
from msgspec import Struct

from lifebus_adapters import OVERRIDES
from lifebus_broker.state.pressure import Thresholds
from lifebus_supervisor.configuration.file import ConfigurationError, FileValue, read_file
from lifebus_supervisor.configuration.notifications import NotificationRule
from lifebus_supervisor.configuration.queue_settings import QueueSettings
from lifebus_supervisor.configuration.settings import (
    NO_FOLDER,
    STDERR,
    BackupSettings,
    ClientSettings,
    LedgerSettings,
    LimitSettings,
    LogSettings,
    MetricSettings,
    PrivacySettings,
    RetentionSettings,
    ScrubSettings,
    Settings,
    SignalSettings,
    SilenceSettings,
    TelemetrySettings,
    TickSettings,
    TranscriptSettings,
)
from lifebus_supervisor.configuration.tables import faults_of, nearest_name
from lifebus_supervisor.extensions.settings import AUTO, ExtensionSettings
from lifebus_supervisor.renewal.profile import RenewalSettings
from lifebus_supervisor.runtime.inbox.settings import ChannelSettings, InboxSettings
from lifebus_transports.directories import default_config_path, default_runtime_dir, default_state_dir
from lifebus_transports.http.settings import NONE, GatewaySettings

Source = Literal["flag", "environment", "file", "default"]
"""Where a value came from, strongest first."""

_SECTIONS: Final[dict[str, type[Struct]]] = {
    "ledger": LedgerSettings,
    "limits": LimitSettings,
    "log": LogSettings,
    "ticks": TickSettings,
    "pressure": Thresholds,
    "retention": RetentionSettings,
    "scrub": ScrubSettings,
    "backup": BackupSettings,
    "gateway": GatewaySettings,
    "inbox": InboxSettings,
    "metrics": MetricSettings,
    "privacy": PrivacySettings,
    "queue": QueueSettings,
    "extensions": ExtensionSettings,
    "signals": SignalSettings,
    "silence": SilenceSettings,
    "telemetry": TelemetrySettings,
    "transcripts": TranscriptSettings,
}
LISTS: Final[dict[str, type[Struct]]] = {
    "clients": ClientSettings,
    "renewals": RenewalSettings,
    "notifications": NotificationRule,
    "inbox.channels": ChannelSettings,
}
"""Lists of tables, `[[clients]]` in the file, with what each table says; they come from there alone."""
# Functions and no values, because these defaults depend on the environment.
_DIRECTORIES: Final = {"runtime_dir": default_runtime_dir, "state_dir": default_state_dir}
# Keys that hold one path as text, with the word that is none
_FILES: Final = {
    "ledger.path": "auto",
    "backup.folder": NO_FOLDER,
    "log.file": STDERR,
    "metrics.file": NO_FOLDER,
    "gateway.token_file": "auto",
    "gateway.tls_cert": NONE,
    "gateway.tls_key": NONE,
    "gateway.rbac_header_secret_file": NONE,
    "gateway.rbac_jwt_secret_file": NONE,
}
# Variables of ours that are no settings: hooks, adapters and the command line read them.
_PATH_LISTS: Final = frozenset(
    {"manifests", "extensions.roots", "extensions.package_roots", "extensions.configured_roots"}
)
_LISTS_IN_VARIABLES: Final = _PATH_LISTS | {"extensions.environment"}
# Names that the specification of extensions gives; ours win over them.
_ALIASES: Final = {
    "AGENT_EXTENSION_PACKAGE_ROOTS": "extensions.package_roots",
    "AGENT_EXTENSION_CONFIGURED_ROOTS": "extensions.configured_roots",
    "AGENT_EXTENSION_TRUST_MODE": "extensions.trust_mode",
    **{
        f"AGENT_EXTENSION_RBAC_{name}": f"gateway.rbac_{name.lower()}"
        for name in ("MODE", "JWT_ISSUER", "JWT_AUDIENCE", "JWT_ROLE_CLAIM", "JWT_ACTOR_CLAIM")
    },
}
_OTHER_VARIABLES: Final = frozenset(
    {"LIFEBUS_CLIENT_ID", "LIFEBUS_CONFIG", "LIFEBUS_DATA_DIR", "LIFEBUS_HOST_ADAPTER", *OVERRIDES}
)

KEYS: Final[dict[str, Any]] = {
    "runtime_dir": Path,
    "state_dir": Path,
    "manifests": tuple[Path, ...],
    **{
        f"{section}.{field.name}": field.type
        for section, kind in _SECTIONS.items()
        for field in msgspec.structs.fields(kind)
    },
    "clients": tuple[ClientSettings, ...],
    "renewals": tuple[RenewalSettings, ...],
    "notifications": tuple[NotificationRule, ...],
}
"""Every key by its dotted name, with its type."""


class Origin(Struct, frozen=True, kw_only=True):
    """A value and where it came from: `where` is the flag, the variable, or file and line.

    `overridden` holds the weaker values that it won over, strongest first.
    """

    key: str
    value: Any
    source: Source
    where: str
    overridden: "tuple[Origin, ...]" = ()


Origins = dict[str, Origin]
"""The origin of every setting, by dotted key."""


def variable_of(key: str) -> str:
    """Return the environment variable of a dotted key: `LIFEBUS_LIMITS_BEACON_MS` for `limits.beacon_ms`."""
    return "LIFEBUS_" + key.replace(".", "_").upper()


def setting_variables() -> frozenset[str]:
    """Return the names of all variables that are settings."""
    return frozenset({*(variable_of(key) for key in KEYS if key not in LISTS), *_ALIASES})


def load(
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    config_path: Path | None = None,
) -> tuple[Settings, Origins]:
    """Return the settings in force, and the origin of each.

    `flags` maps dotted keys to values; None values count as not given.  Without `config_path` the file is
    `LIFEBUS_CONFIG`, which must exist if it is set, else the default one, which need not.

    Raises:
        ConfigurationError: unknown keys, wrong types, values out of bounds; all of them at once.
    """
    variables = os.environ if environ is None else environ
    found: list[Origin] = []
    problems: list[str] = []
    for origin in (*_from_flags(flags or {}), *_from_environment(variables, problems)):
        _take(origin, found, problems)
    for origin in _from_file(_file_of(config_path, variables), variables, problems):
        _take(origin, found, problems)
    # All of them at once: who corrects one at a time restarts the broker for each.
    if problems:
        raise ConfigurationError(problems)
    origins = _resolve([*found, *_defaults(variables)])
    try:
        return _settings({key: origin.value for key, origin in origins.items()}), origins
    except ValueError as fault:  # values that are fine alone, and do not go together
        raise ConfigurationError([str(fault)]) from fault


def _from_flags(flags: Mapping[str, Any]) -> Iterator[Origin]:
    for key, value in flags.items():
        if value is not None:
            where = "--" + key.replace(".", "-").replace("_", "-")
            yield Origin(key=key, value=_absolute(key, value), source="flag", where=where)


def _from_environment(environ: Mapping[str, str], problems: list[str]) -> Iterator[Origin]:
    known = {variable_of(key): key for key in KEYS if key not in LISTS}
    for name, text in sorted(environ.items()):
        if not name.startswith("LIFEBUS_") or not text or name in _OTHER_VARIABLES:
            continue
        if key := known.get(name):
            yield Origin(key=key, value=_in_variable(key, text), source="environment", where=name)
        # Only near misses: other programs may have variables that begin in the same way.
        elif near := nearest_name(name, known, 0.8):
            problems.append(f"environment: unknown variable {name}; did you mean {near[0]}?")

    for name, key in _ALIASES.items():
        if (given := environ.get(name)) and not environ.get(variable_of(key)):
            yield Origin(key=key, value=_in_variable(key, given), source="environment", where=name)


def _in_variable(key: str, text: str) -> str | tuple[str, ...]:
    """Return the value that a variable's text stands for: of a list the parts that are not blank."""
    if key == "manifests":
        return tuple(text.split(os.pathsep))
    if key in _LISTS_IN_VARIABLES:
        return tuple(part.strip() for part in text.split(os.pathsep) if part.strip())
    return text


def _from_file(path: Path | None, environ: Mapping[str, str], problems: list[str]) -> Iterator[Origin]:
    if path is None:
        return
    if _is_missing(path):
        problems.append(_missing(path, environ))
        return
    try:
        values = read_file(path)
    except ConfigurationError as fault:
        problems.extend(fault.problems)
        return
    for item in values:
        where = f"{path}:{item.line}" if item.line else str(path)
        if item.key in _DIRECTORIES:
            reason = "hooks and clients do not read this file"
            problems.append(f"{where}: `{item.key}` is not read from here, {reason}; set {variable_of(item.key)}")
        elif table := _list_of(item.key):
            faults = list(faults_of(item, table, LISTS[table], str(path)))
            problems.extend(faults)
            if not faults:
                yield Origin(key=item.key, value=item.value, source="file", where=where)
        elif item.key not in KEYS:
            problems.append(f"{where}: unknown key `{item.key[:64]}`{_suggestion(item)}")
        else:
            yield Origin(key=item.key, value=item.value, source="file", where=where)


def _is_missing(path: Path) -> bool:
    try:
        path.lstat()
    except FileNotFoundError:
        return True
    except OSError:  # who reads it says what is wrong
        return False
    return False


def _missing(path: Path, environ: Mapping[str, str]) -> str:
    """Return what is wrong where there is no file of that name, and what can be done."""
    # The commands read the variable themselves: a file that is named by both is the variable's.
    if path.absolute() == Path(environ.get("LIFEBUS_CONFIG") or "/").absolute():
        return f"LIFEBUS_CONFIG names {path}, which does not exist: create it, unset the variable, or name /dev/null"
    return f"{path} does not exist: create it, or name another file"


def _list_of(key: str) -> str | None:
    """Return the list of tables that a key belongs to, None where it belongs to none."""
    return next((name for name in (key, key.partition(".")[0]) if name in LISTS), None)


def _file_of(given: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the file to read: a named one must exist, the default one need not."""
    if given is not None:
        return given.absolute()
    # A file that is named and missing is a mistake; the default one is optional.
    path = default_config_path(environ)
    return path if environ.get("LIFEBUS_CONFIG") or path.exists() else None


def _defaults(environ: Mapping[str, str]) -> Iterator[Origin]:
    for key, directory in _DIRECTORIES.items():
        # Without its own variable, which is an origin of its own and no default.
        plain = {name: text for name, text in environ.items() if name != variable_of(key)}
        yield Origin(key=key, value=directory(plain), source="default", where="XDG directories")
    for key in ("manifests", *LISTS):
        yield Origin(key=key, value=(), source="default", where="built in")
    # Defaults are origins like the others, so that `lifebus config` shows one table.
    for section, kind in _SECTIONS.items():
        for field in msgspec.structs.fields(kind):
            if (key := f"{section}.{field.name}") not in LISTS:
                yield Origin(key=key, value=field.default, source="default", where="built in")


def _take(origin: Origin, found: list[Origin], problems: list[str]) -> None:
    """Convert a value to the type of its key, or note what is wrong with it."""
    kind = KEYS[origin.key]
    try:
        # The environment is all text, so numbers and booleans are read out of it there alone.
        value = msgspec.convert(origin.value, kind, strict=origin.source != "environment", dec_hook=_path)
        _refuse_relative(origin.key, value)
    except (msgspec.ValidationError, ValueError) as fault:
        rule = f"one of {', '.join(get_args(kind))}" if get_args(kind) and _is_choice(kind) else str(fault)
        problems.append(f"{origin.where}: `{origin.key}` is {str(origin.value)[:64]!r}: {rule}")
        return
    found.append(msgspec.structs.replace(origin, value=_expanded(origin.key, value)))


def _path(kind: type, value: Any) -> Path:
    """Make a path of text, for msgspec, which knows no paths."""
    if kind is not Path or not isinstance(value, str | Path) or not str(value):
        raise ValueError(f"Expected a path, got `{type(value).__name__}`")
    return Path(value)


def _is_choice(kind: Any) -> bool:
    return all(isinstance(choice, str) for choice in get_args(kind))


def _paths_in(key: str, value: Any) -> tuple[Path, ...]:
    """Return the paths that a value holds; the word for no path of one's own is none."""
    if key in _FILES:
        return () if value == _FILES[key] else (Path(value),)
    if key in _PATH_LISTS:
        return tuple(Path(path) for path in value if path != AUTO)
    return (Path(value),) if key in _DIRECTORIES else ()


def _refuse_relative(key: str, value: Any) -> None:
    for path in _paths_in(key, value):
        if not path.expanduser().is_absolute():
            raise ValueError("a path here is absolute, or begins with ~")


def _absolute(key: str, value: Any) -> Any:
    """Resolve a flag's relative paths against the working directory, where its user stands."""
    # Flags are typed in a shell, whose user expects its working directory to count.
    paths = [str(path.expanduser().absolute()) for path in _paths_in(key, value)]
    if not paths:
        return value
    return tuple(paths) if key == "manifests" else paths[0]


def _expanded(key: str, value: Any) -> Any:
    if key == "manifests":
        return tuple(path.expanduser() for path in cast("tuple[Path, ...]", value))
    return value.expanduser() if isinstance(value, Path) else value


def _resolve(found: list[Origin]) -> Origins:
    """Let the strongest value of each key win, and keep the others beneath it."""
    strength = get_args(Source)
    origins: Origins = {}
    for key in KEYS:
        winner, *others = sorted(
            (origin for origin in found if origin.key == key), key=lambda origin: strength.index(origin.source)
        )
        origins[key] = msgspec.structs.replace(winner, overridden=tuple(others))
    return origins


def _settings(values: Mapping[str, Any]) -> Settings:
    sections: dict[str, Any] = {
        section: kind(**{field.name: values[f"{section}.{field.name}"] for field in msgspec.structs.fields(kind)})
        for section, kind in _SECTIONS.items()
    }
    directories = {key: values[key] for key in _DIRECTORIES}
    lists = {key: values[key] for key in ("manifests", *LISTS) if "." not in key}  # others stand in their sections
    return Settings(**directories, **lists, **sections)


def _suggestion(item: FileValue) -> str:
    """Return what the user may have meant, or where the keys are listed."""
    readable = [key for key in KEYS if key not in _DIRECTORIES]
    near = nearest_name(item.key, readable)
    return f"; did you mean `{near[0]}`?" if near else f"; known are {', '.join(readable)}"
