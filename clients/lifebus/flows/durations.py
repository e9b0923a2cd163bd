"""Durations as users write them.  Pure."""

import re
from typing import Any, Final

_FORM: Final = re.compile(r"^(?P<count>\d{1,9}(?:\.\d{1,6})?)(?P<unit>ms|s|m|h|d)$(?!\n)")
_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: Any) -> int | None:
    """Return the milliseconds of ``500ms``, ``30s``, ``10m``, ``2h`` or ``1d``; None for anything else."""
    found = _FORM.match(text) if isinstance(text, str) else None
    return None if found is None else round(float(found["count"]) * _MS[found["unit"]])


def duration_text(milliseconds: int) -> str:
    """Return a duration as people say it, in its two largest units."""
    if milliseconds < _MS["s"]:
        return f"{milliseconds} ms"
    if milliseconds < _MS["m"]:
        return f"{milliseconds / 1_000:.1f} s".replace(".0 s", " s")
    parts: list[str] = []
    rest = milliseconds // 1_000
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, seconds)
        if count or parts:
            parts.append(f"{count} {unit}")
    return " ".join(one for one in parts[:2] if not one.startswith("0 "))
