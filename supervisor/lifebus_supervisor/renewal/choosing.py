"""Which of the stored continuations a session start gets.  Pure."""

from collections.abc import Sequence

from msgspec import Struct

from lifebus_supervisor.renewal.records import Continuation, ContinuationState


class RenewalStart(Struct, frozen=True, kw_only=True):
    """A session that starts: under which profile, of which adapter, where."""

    profile: str
    adapter_id: str
    session: str
    cwd: str | None = None


class ChosenContinuation(Struct, frozen=True):
    """The one that the session gets."""

    record: Continuation


class SeveralContinuations(Struct, frozen=True):
    """Several match the start: only an operator can choose, so none is used."""

    count: int


class LostContinuation(Struct, frozen=True):
    """The one that matches the start and has expired."""

    record: Continuation


Choice = ChosenContinuation | SeveralContinuations | LostContinuation
"""What a session start may get."""


def choose(
    records: Sequence[Continuation], start: RenewalStart
) -> ChosenContinuation | SeveralContinuations | LostContinuation | None:
    """Return what a session start gets, None for nothing.

    What the session has claimed already comes first, then what was prepared in it, then what was prepared in its
    directory.
    """
    own = [one for one in records if one.profile == start.profile and one.adapter_id == start.adapter_id]
    for one in own:
        if one.state is ContinuationState.CLAIMED and one.claimed_by == start.session:
            return ChosenContinuation(one)
    pending = [one for one in own if one.state is ContinuationState.PENDING]
    matching = _matching(pending, start)
    # to guess would hand one session's token to another
    if len(matching) > 1:
        return SeveralContinuations(len(matching))
    if matching:
        return ChosenContinuation(matching[0])
    expired = _matching([one for one in own if one.state is ContinuationState.EXPIRED], start)
    return LostContinuation(expired[-1]) if expired else None


def _matching(records: Sequence[Continuation], start: RenewalStart) -> list[Continuation]:
    """Return those of the session, else those of its directory."""
    same = [one for one in records if start.session in {one.session, one.claimed_by}]
    return same or [one for one in records if start.cwd is not None and one.cwd == start.cwd]
