"""The bodies of the verbs that administer the ledger (docs/ledger.md, "Commands")."""

from lifebus_contract.fields import Count, Document


class Prune(Document, frozen=True, kw_only=True):
    """`prune`: drop every receipt up to a position; what stands for them is kept, and their keys as tombstones."""

    through: Count


class PruneAnswer(Document, frozen=True, kw_only=True):
    """The answer to `prune`: the floor before and now, and the named consumers that lost something by it."""

    before: Count
    floor: Count
    consumers: tuple[str, ...] = ()


class Verify(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`verify`: check the ledger, whole or the last `tail` receipts."""

    tail: Count | None = None


class VerifyAnswer(Document, frozen=True, kw_only=True):
    """The answer to `verify`: the position up to which was checked, and what is wrong."""

    checked: int
    faults: tuple[str, ...]
