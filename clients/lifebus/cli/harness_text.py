"""How a harness is, in words, for `status` and `doctor`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lifebus_transports.messages.requests import HarnessStatus


def harness_text(harness: "HarnessStatus") -> str:
    """Return how one harness is, in one line: sessions, last event, hook and tick, files, and what has gone quiet."""
    parts = [
        f"{harness.sessions} live",
        f"{harness.open_frames} open frames" if harness.open_frames else "",
        _last(harness.last_event.value, harness.last_event_age_s) if harness.last_event is not None else "no event yet",
        _last("hook", harness.last_hook_age_s),
        _last("tick", harness.last_tick_age_s),
        f"{harness.files} files" + _newest(harness.newest_file_age_s),
        f"{harness.skipped_records} records skipped" if harness.skipped_records else "",
        f"SILENT: {', '.join(harness.silent)}" if harness.silent else "",
        f"degraded: {', '.join(harness.degraded)}" if harness.degraded else "",
    ]
    return ", ".join(part for part in parts if part)


def _last(what: str, age_s: int | None) -> str:
    return f"no {what}" if age_s is None else f"{what} {duration_text(age_s)} ago"


def _newest(age_s: int | None) -> str:
    return "" if age_s is None else f" (newest {duration_text(age_s)} old)"


def duration_text(seconds: int) -> str:
    """Return a duration in its largest whole unit."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
