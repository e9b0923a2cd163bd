"""What the calls of a run to models have cost: each response counted once, totals kept by step.  Pure.

A response is logged many times: once for each block of its content, again in the file of a session that goes on from
it.  All of them have one key, and the last one counts: the first ones of a stream have fewer tokens.  Money is in whole
millionths of a US dollar, so that sums are exact.
"""

from hashlib import blake2b
from typing import Final

from msgspec import Struct, structs

from lifebus_contract.fields import MAX_INTEGER
from lifebus_contract.runs import CostRecord, CostSummary

MAX_KEYS: Final = 65_536
"""Most calls of one run that are told apart by their keys."""

_DIGEST_BYTES: Final = 12


class Tally(Struct, frozen=True, array_like=True):
    """Sums over calls; `input_tokens` are all that were sent, those from and for a cache included."""

    cost_micros: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    calls: int = 0
    unpriced_calls: int = 0

    @property
    def tokens(self) -> int:
        """All tokens, those that were sent and those that came back."""
        return self.input_tokens + self.output_tokens

    def plus(self, other: "Tally") -> "Tally":
        """Return the sums over both."""
        return Tally(*map(int.__add__, structs.astuple(self), structs.astuple(other)))

    def minus(self, other: "Tally") -> "Tally":
        """Return the sums without those of calls that are in them."""
        return Tally(*map(int.__sub__, structs.astuple(self), structs.astuple(other)))


class _Counted(Struct, frozen=True, array_like=True):
    """What is counted under a key, and for which step."""

    step: str
    tally: Tally


class CostBook(Struct, frozen=True, kw_only=True):
    """What a run has cost.  Immutable: `counted` returns the next one, which shares nearly everything with this one.

    `keyed` is what is counted under each key, by the digest of the key, in buckets by the digest's first byte: a new
    book copies one bucket, so that thousands of calls do not cost the square of their number.
    """

    total: Tally = Tally()
    steps: dict[str, Tally] = {}
    keyed: dict[int, dict[bytes, _Counted]] = {}

    def counted(self, record: CostRecord) -> "CostBook":
        """Return the book with a record counted; one with a known key replaces what was counted under it.

        A key stays with the step that had it first, so that what a step has cost never moves to another one.
        """
        tally = tally_of(record)
        if record.key is None:
            return self._changed(record.step_id, tally, self.keyed)
        digest = _digest(record.key)
        bucket = self.keyed.get(digest[0], {})
        before = bucket.get(digest)
        step = record.step_id if before is None else before.step
        keyed = {**self.keyed, digest[0]: {**bucket, digest: _Counted(step, tally)}}
        return self._changed(step, tally if before is None else tally.minus(before.tally), keyed)

    def knows(self, record: CostRecord) -> bool:
        """Whether the same is counted already under the record's key: counting it again changes nothing."""
        before = self._under(record.key)
        return before is not None and before.tally == tally_of(record)

    def takes(self, record: CostRecord) -> bool:
        """Whether a record can be counted: not where there are too many keys, or a sum leaves what JSON can hold."""
        before = self._under(record.key)
        if record.key is not None and before is None and sum(map(len, self.keyed.values())) >= MAX_KEYS:
            return False
        total = self.total.plus(tally_of(record))
        return max(total.cost_micros, total.tokens, total.calls) <= MAX_INTEGER

    def summary(self) -> CostSummary:
        """Return the totals, and those of each step."""
        return _summary(self.total, {name: _summary(tally) for name, tally in self.steps.items()})

    def _under(self, key: str | None) -> _Counted | None:
        if key is None:
            return None
        digest = _digest(key)
        return self.keyed.get(digest[0], {}).get(digest)

    def _changed(self, step: str, by: Tally, keyed: dict[int, dict[bytes, _Counted]]) -> "CostBook":
        steps = {**self.steps, step: self.steps.get(step, Tally()).plus(by)}
        return CostBook(total=self.total.plus(by), steps=steps, keyed=keyed)


def tally_of(record: CostRecord) -> Tally:
    """Return a record as sums; calls without a price are counted apart, and are in no sum of money."""
    return Tally(
        record.cost_micros or 0,
        record.input_tokens,
        record.output_tokens,
        record.cache_read_tokens,
        record.cache_write_tokens,
        record.calls,
        record.calls if record.cost_micros is None else 0,
    )


def _digest(key: str) -> bytes:
    return blake2b(key.encode(), digest_size=_DIGEST_BYTES).digest()


def _summary(tally: Tally, by_step: dict[str, CostSummary] | None = None) -> CostSummary:
    return CostSummary(
        cost_micros=tally.cost_micros,
        input_tokens=tally.input_tokens,
        output_tokens=tally.output_tokens,
        cache_read_tokens=tally.cache_read_tokens,
        cache_write_tokens=tally.cache_write_tokens,
        calls=tally.calls,
        unpriced_calls=tally.unpriced_calls,
        by_step=by_step or {},
    )
