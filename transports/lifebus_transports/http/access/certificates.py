"""Whether the certificate of the settings can be used, tried before anybody connects.

The certificate is shown to a client in memory that trusts it alone: what a real client would refuse for its dates or
its key is refused here.
"""

import contextlib
import ssl
from pathlib import Path
from typing import Final

from lifebus_contract import LifebusError

_MESSAGES: Final = 8
"""More than the messages of a handshake."""


class _Encrypted(Exception):
    """The key is encrypted."""


def check_certificate(certificate: Path, key: Path) -> None:
    """Check that clients can be shown a certificate; blocks.

    Raises:
        LifebusError: `gateway_certificate`: a file cannot be read or is no PEM, they do not belong together, the key is
            encrypted, or the certificate has expired or is not valid yet.
    """
    for path in (certificate, key):
        try:
            path.read_bytes()
        except OSError as fault:
            raise _refused(f"cannot read {path}: {fault.strerror}") from fault
    try:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Without this OpenSSL would ask for a password on the terminal, and wait.
        server.load_cert_chain(certificate, key, _no_password)
    except _Encrypted:
        raise _refused(f"{key} is encrypted; nobody is there to type its password, so use one that is not") from None
    except (ssl.SSLError, ValueError) as fault:
        raise _refused(f"{certificate} and {key} are no certificate and its key in PEM: {_words(fault)}") from fault
    try:
        _shake_hands(server, certificate)
    except (ssl.SSLError, OSError) as fault:
        raise _refused(f"no client would take {certificate}: {_words(fault)}") from fault


def _shake_hands(server: ssl.SSLContext, certificate: Path) -> None:
    """Have a client that trusts the certificate alone connect to a server that shows it.

    Raises:
        ssl.SSLError: the client refuses it.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Its names are the business of those who connect by them.
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(_MESSAGES):
        for side in sides:
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()


def _no_password() -> str:
    raise _Encrypted


def _words(fault: Exception) -> str:
    """Return what is wrong in OpenSSL's words, without the place in its sources."""
    said = getattr(fault, "verify_message", "") or getattr(fault, "reason", "") or str(fault)
    return str(said).replace("_", " ").lower()


def _refused(why: str) -> LifebusError:
    return LifebusError(why, code="gateway_certificate")
