"""What a policy is: how compactions of one kind are made of the stores, the same ones of the same state each time."""

from collections.abc import Container, Iterator
from typing import ClassVar, Protocol

from lifebus_broker.snapshots.compactions.compaction import Compaction, Purpose, compact, compaction_id_of
from lifebus_broker.state.stores import Stores


class Policy(Protocol):
    """A way to make compactions; without clock, randomness or anything else but the stores (docs/ledger.md C3)."""

    policy_id: ClassVar[str]
    """Its name and version, such as ``session_recap@1``; a pin (docs/ledger.md C5)."""

    purpose: ClassVar[Purpose]
    """What its compactions are for."""

    def inputs(self, stores: Stores) -> Iterator[tuple[str, ...]]:
        """Yield the handles of each compaction that it makes of the stores, sorted; nothing is built for that."""
        ...

    def output(self, stores: Stores, handles: tuple[str, ...]) -> bytes:
        """Return the canonical JSON of one of them."""
        ...

    def mentionable(self, handles: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of the handles that may be mentioned to clients; none, unless the policy says so.

        See docs/ledger.md C4.
        """
        ...


def build(policy: Policy, stores: Stores, handles: tuple[str, ...]) -> Compaction:
    """Return one of the compactions that a policy makes of the stores."""
    output = policy.output(stores, handles)
    return compact(policy.purpose, policy.policy_id, handles, output, allowmention=policy.mentionable(handles))


def build_all(policy: Policy, stores: Stores, wanted: Container[str] | None = None) -> Iterator[Compaction]:
    """Yield the compactions that a policy makes of the stores, all or those whose names are wanted."""
    for handles in policy.inputs(stores):
        if wanted is None or compaction_id_of(policy.purpose, policy.policy_id, handles) in wanted:
            yield build(policy, stores, handles)


def names(policy: Policy, stores: Stores) -> Iterator[str]:
    """Yield the names of the compactions that a policy makes of the stores; nothing is built."""
    for handles in policy.inputs(stores):
        yield compaction_id_of(policy.purpose, policy.policy_id, handles)
