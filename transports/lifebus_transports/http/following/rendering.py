"""Records as what is sent of them, made once for all who stand at the same place."""

from collections import OrderedDict
from typing import Final, Literal

from msgspec import Struct

from lifebus_transports.http.following.cursors import numbers_of
from lifebus_transports.http.following.pages import PreparedPage

KEPT: Final = 16
"""How many pages are kept in a form: what followers of one place take within a few turns of the loop."""

Form = Literal["frames", "batch", "events"]
"""A message of a WebSocket for each record, one message with a line for each, server-sent events."""


class Records(Struct, frozen=True):
    """The records of a page of one topic, for who was at `numbers` in a stream's topics.

    `prefix` is what all ids of the stream begin with, `index` the place of the topic among the others.
    """

    page: PreparedPage
    prefix: str
    numbers: tuple[int, ...]
    index: int

    @property
    def ids(self) -> list[str]:
        """The id that continues behind each record."""
        before, after = numbers_of(self.numbers[: self.index]), numbers_of(self.numbers[self.index + 1 :])
        head = f"{self.prefix}{before}." if before else self.prefix
        tail = f".{after}" if after else ""
        return [f"{head}{item.number}{tail}" for item in self.page.items]


class Renderer:
    """Renders records, and keeps what was asked for last; `made` counts what it rendered."""

    def __init__(self) -> None:
        self.made = 0
        self._kept: OrderedDict[tuple[int, str, tuple[int, ...], int, Form], tuple[PreparedPage, list[str]]] = (
            OrderedDict()
        )

    @property
    def kept(self) -> int:
        """How many pages are kept in a form."""
        return len(self._kept)

    def render(self, records: Records, form: Form) -> list[str]:
        """Return the texts to be sent."""
        key = (id(records.page), records.prefix, records.numbers, records.index, form)
        found = self._kept.get(key)
        if found is None:
            self.made += 1
            # With its page, so that no other page gets the same key meanwhile.
            found = self._kept[key] = (records.page, _texts_of(records, form))
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return found[1]


def _texts_of(records: Records, form: Form) -> list[str]:
    pairs = zip(records.ids, records.page.items, strict=True)
    # Ids are letters, digits, dots and tildes: nothing to escape.
    if form == "events":
        return ["".join([f'id: {one}\ndata: {{"id":"{one}",{item.tail.decode()}\n\n' for one, item in pairs])]
    frames = [f'{{"id":"{one}",{item.tail.decode()}' for one, item in pairs]
    return ["\n".join(frames)] if form == "batch" else frames
