"""The settings of the gateway (docs/gateway.md).  Pure."""

import ipaddress
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

LOOPBACK: Final = "localhost"
"""The host that stands for both loopback addresses."""

NONE: Final = "none"
"""The text of a key that names nothing."""

_Text = Annotated[str, Meta(min_length=1, max_length=4_096)]


class GatewaySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether and where the gateway listens, whom it lets in, and its limits."""

    enabled: bool = False
    """Whether the broker has a gateway; it needs `pip install 'lifebus[http]'`."""
    host: Annotated[str, Meta(min_length=1, max_length=256)] = LOOPBACK
    """``localhost``, which is 127.0.0.1 and ::1, or one address; any other than loopback needs TLS and `hosts`."""
    port: Annotated[int, Meta(ge=0, le=65_535)] = 0
    """The port; 0 is any that is free, and `gateway.json` in the runtime directory says which."""
    token_file: Annotated[str, Meta(min_length=1)] = "auto"  # noqa: S105  a word, not a secret
    """The file with the bearer token, made where it is missing; ``auto`` is one in the state directory."""
    hosts: _Text = NONE
    """Further values of `Host`, each as a client sends it, with its port; commas between them."""
    origins: _Text = NONE
    """Web pages that may use the gateway, such as ``https://panel.example``; commas between them."""
    tls_cert: _Text = NONE
    """The certificate chain, PEM; with it and `tls_key` the gateway speaks HTTPS alone."""
    tls_key: _Text = NONE
    """The private key of the certificate, PEM."""
    max_connections: Annotated[int, Meta(ge=1, le=16_384)] = 1_024
    """Connections at once; more are closed unread."""
    compression: bool = False
    """Whether answers and WebSocket messages are compressed for those who ask for it."""
    send_timeout_ms: Annotated[int, Meta(ge=100, le=600_000)] = 10_000
    """How long one message may wait for a client that does not read, before its stream is ended."""
    rbac_mode: Literal["disabled", "header", "jwt"] = "disabled"
    """Who may list and reload extensions (docs/gateway.md, "Roles")."""
    rbac_header_secret_file: _Text = NONE
    """The file with the shared token of the mode ``header``, 32 bytes or more."""
    rbac_jwt_secret_file: _Text = NONE
    """The file with the key that tokens are signed with, 32 bytes or more."""
    rbac_jwt_algorithm: Literal["hs256", "hs384", "hs512"] = "hs256"
    """The one algorithm that is accepted."""
    rbac_jwt_issuer: _Text = NONE
    """The issuer that a token must name; empty asks for none."""
    rbac_jwt_audience: _Text = NONE
    """The audience that a token must name; empty asks for none."""
    rbac_jwt_role_claim: Annotated[str, Meta(min_length=1)] = "role"
    """The claim with the role."""
    rbac_jwt_actor_claim: Annotated[str, Meta(min_length=1)] = "sub"
    """The claim with the name that is audited."""

    def __post_init__(self) -> None:
        if (self.tls_cert == NONE) != (self.tls_key == NONE):
            raise ValueError("gateway: `tls_cert` and `tls_key` go together")
        if not self.is_loopback and not (self.has_tls and self.host_names):
            raise ValueError(
                f"gateway: {self.host} is reached from other machines: set `tls_cert`, `tls_key` and `hosts`, "
                f"or listen on {LOOPBACK}"
            )
        if "*" in self.hosts + self.origins:
            raise ValueError("gateway: `hosts` and `origins` are compared as a whole; a star stands for nothing")

    @property
    def host_names(self) -> tuple[str, ...]:
        """Further values of `Host`."""
        return _parts(self.hosts)

    @property
    def origin_names(self) -> tuple[str, ...]:
        """Origins that may use the gateway."""
        return _parts(self.origins)

    @property
    def has_tls(self) -> bool:
        """Whether it speaks HTTPS."""
        return self.tls_cert != NONE

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of this machine reach it."""
        if self.host == LOOPBACK:
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            # A name could be resolved to anything, so it counts as remote.
            return False


def text_of(value: str) -> str:
    """Return what a key says, empty where it names nothing."""
    return "" if value == NONE else value


def _parts(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text_of(text).split(",") if one.strip())
