"""The resume view as text: live sessions, what is weaker than claimed, and what waits for somebody."""

from collections.abc import Iterator
from typing import Any, Final

from lifebus.cli.terminal import clean, paint

_PENDING: Final = {
    "PENDING_ROLL": ("frame_id", "no end was recorded: it has to be run to its end, or ended"),
    "PENDING_CONSENT": ("about", "an operator has to answer"),
    "PENDING_HANDOUT": ("payload_id", "accepted and not placed: it has to be handed out"),
}
"""Of each kind the field that names one, and what has to happen (session-lifecycle, 5)."""


def resume_lines(view: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a resume view, `fold.working.WorkingSet` as plain data."""
    sessions = view["sessions"]
    yield f"at position {view['position']}: {_counted(len(sessions), 'live session')}"
    for session in sessions:
        yield f"  {_name(session)}  {_session(session)}"
    for adapter_id, session, words in view["weaker"]:
        scope = clean(adapter_id if session is None else f"{adapter_id}/{session}")
        said = ", ".join(f"{clean(name)} is {clean(now)}" for name, now in sorted(words.items()))
        yield f"  {paint('weaker', 'yellow')}  {scope}  {said}"
    yield from _pending_lines(view["pending_state"] or {})


def _pending_lines(pending: dict[str, Any]) -> Iterator[str]:
    waiting = sum(len(pending.get(kind, ())) for kind in _PENDING)
    yield f"{_counted(waiting, 'thing')} pending" if waiting else "nothing is pending"
    for kind, (field, what) in _PENDING.items():
        for one in pending.get(kind, ()):
            yield f"  {paint(kind, 'yellow')}  {_name(one)}  {clean(one[field])}, position {one['position']}: {what}"
        left = pending.get("left_out", {}).get(kind)
        if left:
            yield f"  {kind}  {left} more, older ones"


def _session(session: dict[str, Any]) -> str:
    facts = [f"last {session['last_event']} at {session['last_position']}"]
    if frames := session.get("frames"):
        facts.append(_counted(len(frames), "open frame"))
    if level := session.get("level"):
        facts.append(f"pressure {level}")
    if compactions := session.get("compactions"):
        facts.append(_counted(compactions, "compaction"))
    return clean(", ".join(facts))


def _name(one: dict[str, Any]) -> str:
    return clean(f"{one['adapter_id']}/{one['harness_session_id']}")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
