"""Compactions as an operator sees them: beside a running broker or without one (docs/ledger.md, "Compactions")."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from lifebus_broker.snapshots.compactions.compaction import Compaction, Purpose, encode_compaction
from lifebus_broker.snapshots.compactions.handles import position_of, stream_of
from lifebus_broker.snapshots.compactions.registry import SAVED_RECAPS, CompactionRegistry, RebuildCounts, VerifyReport
from lifebus_broker.snapshots.refused_file import RefusedFile
from lifebus_contract import InvalidRequest
from lifebus_contract.codec import load_json
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.jobs.state_directory import open_state_directory
from lifebus_transports.adapter_names import adapter_id_of

_MOST: Final = 64 * 1024 * 1024


class ListedCompaction(Struct, frozen=True, kw_only=True):
    """A compaction; `of` is the session that it recaps, or the position that it caches; `bytes` are its output's."""

    compaction_id: str
    purpose: Purpose
    compaction_policy_id: str
    of: str
    stale: bool
    bytes: int
    input_handles: tuple[str, ...]
    allowmention_handles: tuple[str, ...]
    output_hash: str


class PresentedCompaction(Struct, frozen=True, kw_only=True):
    """A compaction as it is kept, and a recap's output as plain data; `anew` if the kept one was stale."""

    listed: ListedCompaction
    stored: bytes
    recap: dict[str, Any] | None
    anew: bool


def list_compactions(settings: Settings) -> tuple[list[ListedCompaction], list[RefusedFile]]:
    """Return the compactions of a state directory, and the files that are none.

    Raises:
        LifebusError: the ledger cannot be read.
    """
    with open_state_directory(settings) as opened:
        # Before the files are listed, so that one written meanwhile is not called stale.
        stale = set(opened.compactions.invalidate())
        found = list(opened.compactions.found())
    listed = [_listed(one, stale=one.compaction_id in stale) for one in found if isinstance(one, Compaction)]
    return listed, [one for one in found if isinstance(one, RefusedFile)]


def present_compaction(settings: Settings, which: str) -> PresentedCompaction:
    """Return a compaction by its name, or the recap of ``<adapter>/<session>``; a stale recap is built anew.

    Raises:
        InvalidRequest: there is none, or its file is none.
        LifebusError: the ledger cannot be read.
    """
    with open_state_directory(settings) as opened:
        registry = opened.compactions
        adapter, slash, session = which.partition("/")
        if slash:
            recap = registry.current((adapter_id_of(adapter), session))
            if recap is None:
                raise InvalidRequest(f"the ledger has no session `{which[:200]}`", code="no_session")
            return _presented(recap, stale=False, anew=False)
        return _kept(registry, which)


def rebuild_compactions(settings: Settings, *, everything: bool) -> RebuildCounts:
    """Build what is missing, stale or wrong: the newest state caches, and recaps of the newest sessions or of all.

    Raises:
        LifebusError: the ledger cannot be read.
        OSError: a file cannot be written.
    """
    with open_state_directory(settings) as opened:
        return opened.compactions.rebuild(None if everything else SAVED_RECAPS)


def verify_compactions(settings: Settings) -> VerifyReport:
    """Build every compaction again from the log alone, and compare.

    Raises:
        LifebusError: the ledger cannot be read.
    """
    with open_state_directory(settings) as opened:
        return opened.compactions.verify()


def delete_compactions(settings: Settings, which: Sequence[str] | None) -> int:
    """Delete the compactions of these names, or all; return how many were there.

    Raises:
        LifebusError: the ledger cannot be read.
        OSError: a file cannot be deleted.
    """
    with open_state_directory(settings) as opened:
        return opened.compactions.delete(which)


def _kept(registry: CompactionRegistry, which: str) -> PresentedCompaction:
    found = registry.get(which)
    if found is None:
        detail = f"there is no cache `{which[:64]}`; `lifebus ledger caches list` lists them"
        raise InvalidRequest(detail, code="no_compaction")
    if isinstance(found, RefusedFile):
        detail = f"{found.name}: {found.why}; `lifebus ledger caches rebuild` builds it again"
        raise InvalidRequest(detail, code="compaction_refused")
    stale = which in registry.invalidate()
    session = _session(found)
    # A stale recap is never presented.
    if stale and session is not None:
        fresh = registry.current(session)
        if fresh is not None:
            return _presented(fresh, stale=False, anew=True)
    return _presented(found, stale=stale, anew=False)


def _presented(compaction: Compaction, *, stale: bool, anew: bool) -> PresentedCompaction:
    is_recap = compaction.purpose is Purpose.RECAP
    recap = load_json(compaction.output_bytes, max_bytes=_MOST) if is_recap else None
    stored = encode_compaction(compaction)
    return PresentedCompaction(listed=_listed(compaction, stale=stale), stored=stored, recap=recap, anew=anew)


def _listed(compaction: Compaction, *, stale: bool) -> ListedCompaction:
    session = _session(compaction)
    places = [place for place in map(position_of, compaction.input_handles) if place is not None]
    return ListedCompaction(
        compaction_id=compaction.compaction_id,
        purpose=compaction.purpose,
        compaction_policy_id=compaction.compaction_policy_id,
        of=f"position {places[0]}" if places else "/".join(session or ("?", "?")),
        stale=stale,
        bytes=len(compaction.output_bytes),
        input_handles=compaction.input_handles,
        allowmention_handles=compaction.allowmention_handles,
        output_hash=compaction.output_hash,
    )


def _session(compaction: Compaction) -> tuple[str, str] | None:
    """Return the session that a recap is of."""
    if compaction.purpose is not Purpose.RECAP:
        return None
    keys = [key for key in map(stream_of, compaction.input_handles) if key is not None]
    return (keys[0][0], keys[0][1] or "") if keys else None
