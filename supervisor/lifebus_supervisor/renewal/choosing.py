"""Which of the kept continuations a session start gets.  Pure."""

from collections.abc import Sequence

from msgspec import Struct

from lifebus_supervisor.renewal.records import Continuation, State


class Start(Struct, frozen=True, kw_only=True):
    """A session that starts: under which profile, of which adapter, where."""

    profile: str
    adapter_id: str
    session: str
    cwd: str | None = None


class Chosen(Struct, frozen=True):
    """The one that the session gets."""

    record: Continuation


class Several(Struct, frozen=True):
    """Too many that might be meant: nobody but an operator can say which, so none is used."""

    count: int


class Lost(Struct, frozen=True):
    """The one that the session would have got, had it come in time."""

    record: Continuation


def choose(records: Sequence[Continuation], start: Start) -> Chosen | Several | Lost | None:
    """Return what a session start gets, None for nothing.

    What the session has claimed already comes first, then what was prepared in it, then what was prepared in its
    directory.
    """
    own = [one for one in records if one.profile == start.profile and one.adapter_id == start.adapter_id]
    for one in own:
        if one.state is State.CLAIMED and one.claimed_by == start.session:
            return Chosen(one)
    waiting = [one for one in own if one.state is State.PENDING]
    meant = _meant(waiting, start)
    if len(meant) > 1:
        return Several(len(meant))
    if meant:
        return Chosen(meant[0])
    late = _meant([one for one in own if one.state is State.EXPIRED], start)
    return Lost(late[-1]) if late else None


def _meant(records: Sequence[Continuation], start: Start) -> list[Continuation]:
    """Return those of the session, else those of its directory."""
    same = [one for one in records if start.session in {one.session, one.claimed_by}]
    return same or [one for one in records if start.cwd is not None and one.cwd == start.cwd]
