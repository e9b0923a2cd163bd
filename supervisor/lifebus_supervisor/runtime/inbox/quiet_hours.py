"""The hours of a day in which nobody is reminded, in local time.  Pure."""

import re
from datetime import datetime, tzinfo
from datetime import time as time_of_day
from typing import Final, Self

from msgspec import Struct

_SPAN: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


class QuietHours(Struct, frozen=True):
    """From when until when on each day nobody is reminded; `until` is the first moment at which people are again."""

    start: time_of_day
    until: time_of_day

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return what a text such as ``22:00-07:30`` says.

        Raises:
            ValueError: it says something else.
        """
        found = _SPAN.fullmatch(text)
        if found is None or text[:5] == text[6:]:
            raise ValueError("two times of a day that differ, such as 22:00-07:30")
        hour, minute, last_hour, last_minute = map(int, found.groups())
        return cls(time_of_day(hour, minute), time_of_day(last_hour, last_minute))

    def hold(self, at_ms: int, zone: tzinfo | None) -> bool:
        """Whether a moment lies within them; without a zone, in that of the machine."""
        now = datetime.fromtimestamp(at_ms / 1000, zone).time()
        if self.start < self.until:
            return self.start <= now < self.until
        return now >= self.start or now < self.until
