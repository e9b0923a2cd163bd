"""Secrets of channels, read from files and variables anew each time: a new one counts without a restart."""

import base64
import binascii
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio.to_thread
from msgspec import Struct

from lifebus_contract import LifebusError
from lifebus_supervisor.runtime.inbox.channels.channel import DeliveryFault
from lifebus_supervisor.runtime.inbox.channels.own_files import OPENING, read_own
from lifebus_transports.ownership import check_parents

MAX_SECRET_BYTES: Final = 16_384
"""Largest secret, or list of secret addresses."""

_ENCODED: Final = "whsec_"


class SecretSource(Struct, frozen=True):
    """Where a secret is: in a file, or in a variable of the broker's environment."""

    path: str | None
    variable: str | None

    async def read(self, environ: Mapping[str, str]) -> str:
        """Return the secret without blanks around it.

        Raises:
            DeliveryFault: it is not there, is empty, or others may read it.
        """
        if self.path is not None:
            text = await anyio.to_thread.run_sync(_read_file, self.path)
        else:
            text = environ.get(self.variable or "", "")
        if not text.strip():
            raise DeliveryFault(f"{self.path or f'the variable {self.variable}'} holds no secret")
        return text.strip()


def signing_key(secret: str) -> bytes:
    """Return the key that a secret stands for: behind ``whsec_`` it is Base64, otherwise the text itself.

    Raises:
        DeliveryFault: it cannot be decoded.
    """
    if not secret.startswith(_ENCODED):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_ENCODED), validate=True)
    except (binascii.Error, ValueError):
        raise DeliveryFault("the secret begins with `whsec_`, and what follows is no Base64") from None


def _read_file(name: str) -> str:
    path = Path(name).expanduser()
    try:
        check_parents(path)
        descriptor = os.open(path, OPENING)
        try:
            found, text = read_own(path, descriptor, MAX_SECRET_BYTES, of_root=True)
        finally:
            os.close(descriptor)
    except (LifebusError, OSError, ValueError) as fault:
        raise DeliveryFault(f"{path} is not read: {_why(fault)}") from None
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise DeliveryFault(f"{path} is not read: others may read it; run: chmod 600 {path}")
    return text


def _why(fault: Exception) -> str:
    if isinstance(fault, LifebusError):
        return fault.detail
    return (fault.strerror or "") if isinstance(fault, OSError) else str(fault)
