"""A checkpoint as it stands in its file: a line that says what follows, then the body, byte for byte.  Pure.

The line begins with its own digest and holds that of the body, so that no damage goes unnoticed.
"""

import hashlib
import re
from typing import Any, Final

import msgspec
from msgspec import Struct

from lifebus.checkpoints.kinds import CheckpointFacts, read_document
from lifebus_contract import LifebusError

_ID: Final = re.compile(r"ckpt_[0-9a-f]{26}")
_NAME: Final = re.compile(r"(?P<number>\d{12})\.(?P<slot>[0-9a-f]{12})\.(?P<id>ckpt_[0-9a-f]{26})\.checkpoint")


class CheckpointInfo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of a checkpoint without its body.

    `number` counts the checkpoints of a project in the order in which they were saved; times are in milliseconds since
    the epoch.  `session` is the (adapter_id, session id) to which its receipt belongs.
    """

    checkpoint_id: str
    kind: str
    name: str
    run_id: str
    created_at: str
    saved_at_ms: int
    number: int
    byte_size: int
    digest: str
    session: tuple[str, str] | None = None


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A checkpoint as it was saved."""

    info: CheckpointInfo
    body: bytes

    @property
    def document(self) -> Any:
        """The body as plain data."""
        return read_document(self.body)


class FileName(Struct, frozen=True):
    """What the name of a checkpoint's file says."""

    number: int
    slot: str
    checkpoint_id: str

    def __str__(self) -> str:
        return f"{self.number:012d}.{self.slot}.{self.checkpoint_id}.checkpoint"


def is_checkpoint_id(text: str) -> bool:
    """Whether a text is the id of a checkpoint, and not a name."""
    return _ID.fullmatch(text) is not None


def checkpoint_id(kind: str, project: str, body: bytes) -> str:
    """Return the id that follows from what a checkpoint says, and for which project: saved again, it is the same."""
    made = hashlib.sha256()
    for part in (kind.encode(), project.encode("utf-8", "surrogateescape"), body):
        made.update(len(part).to_bytes(8) + part)
    return f"ckpt_{made.hexdigest()[:26]}"


def slot_of(kind: str, name: str) -> str:
    """Return the part of a file's name that all checkpoints of a name share."""
    return hashlib.sha256(f"{kind}\0{name}".encode()).hexdigest()[:12]


def parse_file_name(text: str) -> FileName | None:
    """Return what the name of a file says, None where it is none of ours."""
    found = _NAME.fullmatch(text)
    return None if found is None else FileName(int(found["number"]), found["slot"], found["id"])


def make_checkpoint(
    kind: str, project: str, body: bytes, facts: CheckpointFacts, session: tuple[str, str] | None = None
) -> Checkpoint:
    """Return a checkpoint that is not saved yet: its number and time are 0."""
    info = CheckpointInfo(
        checkpoint_id=checkpoint_id(kind, project, body),
        kind=kind,
        name=facts.name,
        run_id=facts.run_id,
        created_at=facts.created_at,
        saved_at_ms=0,
        number=0,
        byte_size=len(body),
        digest=_digest(body),
        session=session,
    )
    return Checkpoint(info=info, body=body)


def file_name_of(info: CheckpointInfo) -> FileName:
    """Return the name of a checkpoint's file."""
    return FileName(info.number, slot_of(info.kind, info.name), info.checkpoint_id)


def encode_record(checkpoint: Checkpoint) -> bytes:
    """Return what the file of a checkpoint holds."""
    head = msgspec.json.encode(checkpoint.info)
    return b"%b %b\n%b" % (_digest(head).encode(), head, checkpoint.body)


def decode_record(name: FileName, contents: bytes) -> Checkpoint:
    """Return the checkpoint that a file holds.

    Raises:
        LifebusError: `checkpoint_damaged`: it is not what was written under this name.
    """
    line, _, body = contents.partition(b"\n")
    digest, _, head = line.partition(b" ")
    if digest.decode("latin-1") != _digest(head):
        raise damaged(name, "its first line is not what was written")
    try:
        info = msgspec.json.decode(head, type=CheckpointInfo)
    except msgspec.DecodeError:
        raise damaged(name, "its first line cannot be read") from None
    if file_name_of(info) != name:
        raise damaged(name, "it is another checkpoint's")
    if info.byte_size != len(body) or info.digest != _digest(body):
        raise damaged(name, f"its body is not the one of {info.byte_size} bytes and {info.digest}")
    return Checkpoint(info=info, body=body)


def damaged(name: FileName, why: str) -> LifebusError:
    """Return the error of a file that is not what was written."""
    return LifebusError(f"the file of checkpoint {name.checkpoint_id} is damaged: {why}", code="checkpoint_damaged")


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
