"""How the broker sees a harness, in one line; made without any library."""

from lifebus.cli.wording.durations import duration_text

TYPE_CHECKING = False  # `lifebus status` prints it before `typing` would be loaded
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def harness_text(harness: "Mapping[str, Any]") -> str:
    """Return how one harness is, of the plain values of a `HarnessStatus`.

    The line has sessions, last event, hook and tick, files, and what is silent.
    """
    frames = harness["open_frames"]
    parts = [
        f"{harness['sessions']} live",
        f"{frames} open frame{'s' if frames > 1 else ''}" if frames else "",
        _last(harness["last_event"], harness["last_event_age_s"]) if harness["last_event"] else "no event yet",
        _last("hook", harness["last_hook_age_s"]),
        _last("tick", harness["last_tick_age_s"]),
        f"{harness['files']} files" + _newest(harness["newest_file_age_s"]),
        f"{harness['skipped_records']} records skipped" if harness["skipped_records"] else "",
        f"SILENT: {', '.join(harness['silent'])}" if harness["silent"] else "",
        f"degraded: {', '.join(harness['degraded'])}" if harness["degraded"] else "",
    ]
    return ", ".join(part for part in parts if part)


def _last(what: str, age_s: int | None) -> str:
    return f"no {what}" if age_s is None else f"{what} {duration_text(age_s)} ago"


def _newest(age_s: int | None) -> str:
    return "" if age_s is None else f" (newest {duration_text(age_s)} old)"
