"""A session's recap in lines for a person."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from lifebus.cli.terminal import clean


def recap_lines(recap: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines: who and when, what happened, what is still open; parts that are empty are left out."""
    state = "ended" if recap["ended"] else "goes on"
    yield f"{clean(recap['adapter_id'])}/{clean(recap['harness_session_id'])}  {state}"
    yield _line("when", f"{_moment(recap['first_at_epoch_s'])} to {_moment(recap['last_at_epoch_s'])}")
    places = f"positions {recap['first_position']} to {recap['last_position']}"
    yield _line("receipts", f"{recap['receipts']}, {places}; {_starts(recap['starts'])}")
    for name in ("events", "statuses", "payloads"):
        if recap[name]:
            yield _line(name, _counts(recap[name]))
    if recap["compactions"]:
        yield _line("compactions", str(recap["compactions"]))
    if peak := _peak(recap["peak"]):
        yield _line("peak", peak)
    losses = recap["losses"]
    if losses["ever"]:
        now = ", ".join(_lost(one) for one in losses["now"]) or "nothing"
        yield _line("lost", f"{now} now; ever: {clean(', '.join(losses['ever']))}; {losses['times']} times")
    yield from _pending(recap["pending"])


def _pending(pending: Mapping[str, Any]) -> Iterator[str]:
    for frame in pending["frames"]:
        yield _line("open", f"frame {clean(frame['frame_id'])} since {_moment(frame.get('opened_at_epoch_s', 0))}")
    for one in pending["questions"]:
        yield _line("waits", f"an operator for {clean(one['client_id'])}: {clean(one['about'])}, {_at(one)}")
    for one in pending["payloads"]:
        payload = f"payload {clean(one['payload_id'])} ({clean(one['payload_kind'])})"
        yield _line("waits", f"{payload} of {clean(one['client_id'])} has no place, {_at(one)}")


def _line(name: str, text: str) -> str:
    return f"  {name:<12}{text}"


def _starts(count: int) -> str:
    return "started once" if count == 1 else f"started {count} times"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def _peak(peak: Mapping[str, Any]) -> str:
    parts = [peak["level"], None if peak["used_pct"] is None else f"{peak['used_pct']} %"]
    parts.append(None if peak["used_tokens"] is None else f"{peak['used_tokens']} tokens")
    return ", ".join(part for part in parts if part is not None)


def _lost(one: Mapping[str, Any]) -> str:
    cause = one.get("cause")
    return f"{clean(one['capability'])} is {one['support']}" + (f" ({clean(cause)})" if cause else "")


def _at(one: Mapping[str, Any]) -> str:
    return f"position {one['position']}"


def _moment(epoch_s: int) -> str:
    try:
        return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"@{epoch_s}"
