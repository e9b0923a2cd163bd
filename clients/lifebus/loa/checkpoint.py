"""Loa's checkpoints: their schema, and where one is exported to.  Pure."""

from typing import Annotated, Any, Final, Literal, cast

from msgspec import Meta, Struct

from lifebus.checkpoints.kinds import CheckpointArtifact, CheckpointFacts, parse_checksum, refuse
from lifebus.loa.types import ArtifactRef, Decision, PhaseError, check_timestamp
from lifebus_contract import InvalidRequest, validate

VERSION: Final = 1
"""The version of the schema that this program knows."""

MAX_SUMMARY_WORDS: Final = 500
"""Most words of a summary."""

MAX_SUMMARY_BYTES: Final = 8_192
"""Most bytes of a summary in UTF-8."""

EXPORT_DIRECTORY: Final = ".loa-checkpoint"
"""Where checkpoints are exported to, beneath the project's root."""

# Both become identifiers on the bus.
_Name = Annotated[str, Meta(min_length=1, max_length=256)]
_MAX_NAME_BYTES: Final = 250


class LoaCheckpointDocument(Struct, frozen=True, kw_only=True):
    """A checkpoint as the Loa runtime contract has it; other keys may be there and are kept.

    `summary` has at most 500 words and 8,192 bytes, and is not blank.  Times are ISO 8601 with a zone.
    """

    version: Literal[1]  # `VERSION`, which a type cannot name
    execution_id: _Name
    phase: _Name
    created_at: str
    exit_code: Literal[0, 1, 2]
    duration_ms: Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]
    summary: str
    decisions: tuple[Decision, ...]
    artifacts: tuple[ArtifactRef, ...]
    errors: tuple[PhaseError, ...]

    def __post_init__(self) -> None:
        for name, text in (("execution_id", self.execution_id), ("phase", self.phase)):
            if not text.isprintable():
                raise ValueError(f"{name}: must not hold control or unprintable characters")
        check_timestamp("created_at", self.created_at)
        _check_summary(self.summary)


class LoaCheckpointKind:
    """Loa's checkpoints as a kind: a `lifebus.checkpoints.kinds.CheckpointKind`."""

    def __init__(self) -> None:
        self.payload_kind = "loa.checkpoint"
        self.client_id = "loa"

    def facts_of(self, document: Any) -> CheckpointFacts:
        """Return what may be known of a checkpoint, once it is proved to be one.

        Raises:
            InvalidRequest: it breaks the schema; the field says where.
        """
        _check_version(document)
        found = validate(document, LoaCheckpointDocument)
        return CheckpointFacts(
            name=found.phase,
            run_id=found.execution_id,
            created_at=found.created_at,
            artifacts=tuple(_artifact(index, one) for index, one in enumerate(found.artifacts)),
        )

    def export_path(self, facts: CheckpointFacts) -> str:
        """Return where it is exported to, beneath the project's root.

        Raises:
            InvalidRequest: its phase is not the name of a file.
        """
        name = facts.name
        if "/" in name or name in {".", ".."} or len(name.encode()) > _MAX_NAME_BYTES:
            detail = f"the phase `{name[:64]}` is not the name of a file, so that it cannot be exported"
            raise InvalidRequest(detail, code="path_invalid", field="$.phase")
        return f"{EXPORT_DIRECTORY}/{name}.yaml"

    def export_text(self, document: Any) -> str:
        """Return it as YAML, its keys in their order."""
        from lifebus.loa.checkpoint_yaml import dump_yaml  # noqa: PLC0415  only an export needs the library

        return dump_yaml(document)


LOA_CHECKPOINT: Final = LoaCheckpointKind()
"""Loa's checkpoints."""


def _check_version(document: Any) -> None:
    """Refuse a document of another version, of which nothing else can be said.

    Raises:
        InvalidRequest: says which version it is, which one is known, and what to do.
    """
    version = cast("dict[str, Any]", document).get("version") if isinstance(document, dict) else None
    if isinstance(version, int) and not isinstance(version, bool) and version != VERSION:
        known = f"this lifebus knows version {VERSION} alone"
        ways = f"write it as version {VERSION}, or save it with a lifebus that knows version {version}"
        raise refuse("$.version", f"the checkpoint is of version {version}, and {known}; {ways}")


def _artifact(index: int, given: ArtifactRef) -> CheckpointArtifact:
    try:
        digest = parse_checksum(given.checksum)
    except ValueError as fault:
        raise refuse(f"$.artifacts[{index}].checksum", str(fault)) from None
    return CheckpointArtifact(path=given.path, byte_size=given.size_bytes, digest=digest)


def _check_summary(summary: str) -> None:
    """Refuse a summary that is too long, or none.

    Raises:
        ValueError: says which limit.
    """
    words, size = len(summary.split()), len(summary.encode())
    if not words:
        raise ValueError("summary: it is blank, and a checkpoint needs one")
    if words > MAX_SUMMARY_WORDS:
        raise ValueError(f"summary: {words} words; the limit is {MAX_SUMMARY_WORDS}")
    if size > MAX_SUMMARY_BYTES:
        raise ValueError(f"summary: {size} bytes; the limit is {MAX_SUMMARY_BYTES}")
