"""What a client says about its checkpoints: what they hold, and what may be read from them.  Pure."""

import re
from typing import Any, Final, Protocol

from msgspec import Struct

from lifebus_contract import InvalidRequest
from lifebus_contract.codec import load_json
from lifebus_contract.fields import MAX_MESSAGE_BYTES

_ALGORITHMS: Final = {"sha256": 64, "sha384": 96, "sha512": 128}
_CHECKSUM: Final = re.compile(r"(?:(?P<algorithm>[a-z0-9]+):)?(?P<hex>[0-9a-fA-F]+)")
_MAX_ITEMS: Final = 65_536


class CheckpointArtifact(Struct, frozen=True, kw_only=True):
    """A file that a checkpoint refers to, as it was then; `digest` is ``algorithm:hex`` in lower case."""

    path: str
    byte_size: int
    digest: str


class CheckpointFacts(Struct, frozen=True, kw_only=True):
    """What may be known of a checkpoint without knowing its kind.

    The newest one is found by `name`.  `run_id` is whatever the client calls the execution that it belongs to, and
    `created_at` its own time.
    """

    name: str
    run_id: str
    created_at: str
    artifacts: tuple[CheckpointArtifact, ...] = ()


class CheckpointKind(Protocol):
    """One kind of checkpoints, as its client defines it."""

    @property
    def payload_kind(self) -> str:
        """Under which payload kind its receipts are on the bus."""
        ...

    @property
    def client_id(self) -> str:
        """Under which client's name its receipts are on the bus."""
        ...

    def facts_of(self, document: Any) -> CheckpointFacts:
        """Return what may be known of a checkpoint, once it is proved to be one.

        Raises:
            InvalidRequest: it breaks the schema; the field says where.
        """
        ...

    def export_path(self, facts: CheckpointFacts) -> str:
        """Return where it is exported to, beneath the project's root.

        Raises:
            InvalidRequest: its name is not the name of a file.
        """
        ...

    def export_text(self, document: Any) -> str:
        """Return it as the text of the exported file."""
        ...


def read_document(body: bytes) -> Any:
    """Return a checkpoint's plain data, read as strictly as every document of the bus.

    Raises:
        InvalidRequest: it is too large, or no strict JSON.
    """
    return load_json(body, max_bytes=MAX_MESSAGE_BYTES, max_items=_MAX_ITEMS)


def parse_checksum(text: str) -> str:
    """Return a checksum as ``algorithm:hex``; hex alone is SHA-256.

    Raises:
        ValueError: another form, or an algorithm that is not verified here.
    """
    found = _CHECKSUM.fullmatch(text)
    algorithm = (found and found["algorithm"]) or "sha256"
    if found is None or len(found["hex"]) != _ALGORITHMS.get(algorithm):
        known = ", ".join(_ALGORITHMS)
        raise ValueError(f"`{text[:80]}` is no checksum that can be verified; write ALGORITHM:HEX with {known}")
    return f"{algorithm}:{found['hex'].lower()}"


def refuse(field: str, detail: str) -> InvalidRequest:
    """Return the refusal of a checkpoint for one of its fields."""
    return InvalidRequest(f"{field}: {detail}", code="against_contract", field=field)
