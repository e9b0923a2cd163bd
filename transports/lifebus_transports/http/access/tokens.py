"""The gateway's token: 256 bits in a file that only its owner reads."""

import base64
import contextlib
import hmac
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lifebus_contract import LifebusError

_BYTES: Final = 32
_MAX_FILE: Final = 4_096
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def take_token(path: Path, entropy: Callable[[int], bytes] = os.urandom) -> str:
    """Return the token of a file, which is made where there is none.

    Raises:
        LifebusError: `gateway_secret`: others may read it, it belongs to somebody else, or it is too short.
    """
    # A hundred brokers may start at once: whoever makes the file decides, the others read it.
    with contextlib.suppress(FileExistsError):
        _make(path, base64.urlsafe_b64encode(entropy(_BYTES)).rstrip(b"=").decode())
    return read_secret(path)


def read_secret(path: Path) -> str:
    """Return the secret that a private file holds.

    Raises:
        LifebusError: `gateway_secret`: it cannot be read, is not private, or has fewer than 32 bytes.
    """
    try:
        descriptor = os.open(path, _OPEN)
    except OSError as fault:
        raise LifebusError(f"cannot read {path}: {fault.strerror}", code="gateway_secret") from fault
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise LifebusError(f"{path} is no file of this user; use another one", code="gateway_secret")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise LifebusError(f"others may read {path}; run: chmod 600 {path}", code="gateway_secret")
        text = os.read(descriptor, _MAX_FILE + 1).decode("utf-8", "replace").strip()
    finally:
        os.close(descriptor)
    if not _BYTES <= len(text.encode()) <= _MAX_FILE or not text.isprintable():
        raise LifebusError(f"{path} holds no secret of {_BYTES} bytes or more in one line", code="gateway_secret")
    return text


def is_same(given: str, secret: str) -> bool:
    """Whether two secrets are the same; it takes as long for every wrong one."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode())


def _make(path: Path, token: str) -> None:
    """Write the token beside its place and move it there, unless somebody was faster.

    Raises:
        FileExistsError: there is one.
    """
    if path.exists():
        raise FileExistsError(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(f"{token}\n".encode())
            file.flush()
            os.fsync(descriptor)
        # A link and no rename, which would replace the file of whoever was faster.
        os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
