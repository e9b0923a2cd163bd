"""Durations as users read and write them; made without any library."""

_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DIGITS = 9
_DECIMALS = 6


def duration_text(seconds: int) -> str:
    """Return a duration in its largest whole unit."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def duration_seconds(text: str) -> float | None:
    """Return the seconds of ``500ms``, ``5s``, ``1.5m``, ``2h``, ``7d`` or ``1w``; None for another form."""
    count = text.rstrip("mshdw")
    unit = text[len(count) :]
    whole, point, part = count.partition(".")
    if unit not in _SECONDS or not _is_number(whole, _DIGITS) or (point and not _is_number(part, _DECIMALS)):
        return None
    return float(count) * _SECONDS[unit]


def _is_number(text: str, digits: int) -> bool:
    return text.isdecimal() and len(text) <= digits
