"""Where spans and log records go, by the variables that every exporter of OpenTelemetry reads.  Pure."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from lifebus_supervisor.traces.spans import Value

DEFAULT_ENDPOINT: Final = "http://localhost:4318"
"""Where a collector on this machine listens."""

PREFIX: Final = "OTEL_EXPORTER_OTLP_"
SIGNALS: Final = ("traces", "logs")
"""What can be exported."""

_DEFAULT_MS: Final = 10_000
_LONGEST_MS: Final = 600_000
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}")
_VISIBLE: Final = re.compile(r"[\x20-\x7e]{0,8192}")


class Endpoint(Struct, frozen=True, kw_only=True):
    """Where one signal is posted to.  `headers` may hold secrets."""

    signal: str
    url: str
    headers: Mapping[str, str]
    gzip: bool
    seconds: float


def endpoints(environ: Mapping[str, str], base: str | None, headers: str | None) -> list[Endpoint]:
    """Return where each signal is posted to that is not turned off; `base` and `headers` go before the variables.

    Raises:
        ValueError: a variable has a value that cannot be used; the text names it, and never holds a header's value.
    """
    return [
        _endpoint(signal, environ, base, headers)
        for signal in SIGNALS
        if environ.get(f"OTEL_{signal.upper()}_EXPORTER", "otlp").strip().lower() != "none"
    ]


def resource(environ: Mapping[str, str], version: str) -> dict[str, Value]:
    """Return what exported things say of their origin: `service.name` is ``lifebus`` unless a variable says another.

    Raises:
        ValueError: OTEL_RESOURCE_ATTRIBUTES is no list of pairs.
    """
    given = _pairs(environ.get("OTEL_RESOURCE_ATTRIBUTES", ""), "OTEL_RESOURCE_ATTRIBUTES")
    found: dict[str, Value] = {"service.name": "lifebus", "service.version": version, **given}
    if name := environ.get("OTEL_SERVICE_NAME", ""):
        found["service.name"] = name
    return found


def parse_headers(text: str, where: str) -> dict[str, str]:
    """Return headers, given as ``name=value`` with commas between, or one a line; values may be percent-encoded.

    Raises:
        ValueError: that is no such list.
    """
    found = _pairs(",".join(text.splitlines()), where)
    for name, value in found.items():
        if not _TOKEN.fullmatch(name) or not _VISIBLE.fullmatch(value):
            raise ValueError(f"{where}: a header is no header of HTTP")
    return found


def _endpoint(signal: str, environ: Mapping[str, str], base: str | None, headers: str | None) -> Endpoint:
    def variable(name: str) -> tuple[str, str]:
        own = f"{PREFIX}{signal.upper()}_{name}"
        found = own if environ.get(own) else f"{PREFIX}{name}"
        return environ.get(found, "").strip(), found

    protocol, where = variable("PROTOCOL")
    if protocol not in {"", "http/protobuf"}:
        raise ValueError(f"{where}: lifebus speaks http/protobuf alone, mostly on port 4318")
    compression, where = variable("COMPRESSION")
    if compression not in {"", "none", "gzip"}:
        raise ValueError(f"{where}: none or gzip")
    given, where = variable("HEADERS")
    return Endpoint(
        signal=signal,
        url=_url(signal, environ, base),
        headers=parse_headers(given, where) if headers is None else parse_headers(headers, "--headers-file"),
        gzip=compression == "gzip",
        seconds=_milliseconds(*variable("TIMEOUT")) / 1_000,
    )


def _url(signal: str, environ: Mapping[str, str], base: str | None) -> str:
    """Return the address of a signal: its own variable is taken as it is, all others get the signal's path."""
    own = f"{PREFIX}{signal.upper()}_ENDPOINT"
    where = "--endpoint"
    if base is None and environ.get(own):
        where, url = own, environ[own].strip()
    else:
        if base is None:
            where, base = f"{PREFIX}ENDPOINT", environ.get(f"{PREFIX}ENDPOINT", "").strip() or DEFAULT_ENDPOINT
        url = f"{base.rstrip('/')}/v1/{signal}"
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError(f"{where}: that is no address; write http://localhost:4318 or https://…")
    return url


def _milliseconds(text: str, where: str) -> int:
    if not text:
        return _DEFAULT_MS
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= _LONGEST_MS:
        raise ValueError(f"{where}: milliseconds, from 1 to {_LONGEST_MS}")
    return int(text)


def _pairs(text: str, where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals and part.strip():
            raise ValueError(f"{where}: name=value, with commas between")
        if equals:
            found[unquote(name.strip())] = unquote(value.strip())
    return found
