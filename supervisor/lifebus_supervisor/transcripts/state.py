"""One transcript as its records say.  Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from lifebus_contract.jobs import Suggestion
from lifebus_contract.transcripts import TranscriptEntry
from lifebus_supervisor.transcripts.records import EntriesPut, Filled, StoredEntry, SuggestionPut, TranscriptRecord
from lifebus_supervisor.transcripts.rules.merging import entry_size

MAX_ENTRIES: Final = 5_000
"""Most entries of a transcript; of more, the oldest are dropped."""

MAX_BYTES: Final = 16 * 1_048_576
"""Most bytes of a transcript's entries; of more, the oldest are dropped."""


MAX_SUGGESTIONS: Final = 16
"""Most suggested requests of a session; of more, those that changed longest ago are forgotten."""


class TranscriptState:
    """A transcript: its entries by message id in their order, and up to where it is filled.

    `size` is the bytes of its entries, `dropped` counts those that are not kept any more, `last` is the newest sequence
    that was given, `updated_at` when it changed last, in milliseconds since the epoch.  `suggestions` are the suggested
    requests by their keys, the one that changed last at the end.
    """

    def __init__(self) -> None:
        self.size = self.dropped = self.last = 0
        self.updated_at: int | None = None
        self.filled: Filled = {}
        self.suggestions: dict[str, Suggestion] = {}
        self._entries: dict[str, StoredEntry] = {}
        self._sizes: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[StoredEntry]:
        """Yield the entries in their order."""
        return iter(self._entries.values())

    def get(self, message_id: str) -> StoredEntry | None:
        """Return the entry of a message id, None where there is none."""
        return self._entries.get(message_id)

    def place(self, entry: TranscriptEntry, *, filled: bool = False, behind: int = 0) -> StoredEntry:
        """Return an entry in the place of its message id; `behind` is how many new ones come before it."""
        known = self._entries.get(entry.message_id)
        if known is None:
            return StoredEntry(self.last + 1 + behind, entry, filled)
        return StoredEntry(known.sequence, entry, known.filled or filled, known.torn, known.cut_off)

    def apply(self, record: TranscriptRecord) -> None:
        """Take in a record."""
        self.filled = record.filled
        self.updated_at = record.at_ms
        if isinstance(record, EntriesPut):
            for stored in record.entries:
                self._put(stored)
            return
        if isinstance(record, SuggestionPut):
            self._suggest(record.suggestion)
            return
        self.dropped, self.last = record.count, max(self.last, record.through)
        for message_id in [name for name, one in self._entries.items() if one.sequence <= record.through]:
            self.size -= self._sizes.pop(message_id)
            del self._entries[message_id]

    def excess(self, more: Sequence[StoredEntry] = ()) -> int:
        """Return up to which sequence the oldest entries have to go so that the rest and `more` are within bounds."""
        new = [one for one in more if one.entry.message_id not in self._entries]
        count = len(self._entries) + len(new)
        size = self.size + sum(entry_size(one.entry) - self._sizes.get(one.entry.message_id, 0) for one in more)
        # An entry that changes now is kept: its place would be gone with it.
        changed = min((one.sequence for one in more), default=self.last + 1)
        through = 0
        for name, one in self._entries.items():
            if one.sequence >= changed or (count <= MAX_ENTRIES and size <= MAX_BYTES):
                break
            count, size, through = count - 1, size - self._sizes[name], one.sequence
        return through

    def oldest(self, size: int) -> int:
        """Return up to which sequence entries have to go to leave at most `size` bytes, 0 where none has to."""
        through, left = 0, self.size
        for name, one in self._entries.items():
            if left <= size:
                break
            left, through = left - self._sizes[name], one.sequence
        return through

    def count_through(self, sequence: int) -> int:
        """Return how many entries there are up to a sequence."""
        return sum(one.sequence <= sequence for one in self._entries.values())

    def _suggest(self, suggestion: Suggestion) -> None:
        self.suggestions.pop(suggestion.request_key, None)
        self.suggestions[suggestion.request_key] = suggestion
        while len(self.suggestions) > MAX_SUGGESTIONS:
            del self.suggestions[next(iter(self.suggestions))]

    def _put(self, stored: StoredEntry) -> None:
        name = stored.entry.message_id
        size = entry_size(stored.entry)
        self.size += size - self._sizes.get(name, 0)
        self._entries[name], self._sizes[name] = stored, size
        self.last = max(self.last, stored.sequence)
