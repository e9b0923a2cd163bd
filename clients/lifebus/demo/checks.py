"""What the demonstration claims, checked against the ledger.  Pure."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from lifebus.demo.follower import Follower
from lifebus.demo.participants import PAYLOAD_TEXT
from lifebus.demo.replay import HookResult
from lifebus_contract import FailureClass, Receipt, ReceiptStatus


class LedgerRow(Struct, frozen=True):
    """A receipt in the ledger, and its position."""

    position: int
    receipt: Receipt


class Check(Struct, frozen=True):
    """One claim, whether it holds, and in one line why."""

    name: str
    holds: bool
    text: str


def check_followers(rows: Sequence[LedgerRow], followers: Iterable[Follower]) -> list[Check]:
    """Compare what each follower saw with the ledger: every receipt, exactly once, in order, nothing else."""
    return [_check_follower(rows, follower) for follower in followers]


def check_sequences(rows: Sequence[LedgerRow]) -> Check:
    """Check that positions and the sequences of each session count 1, 2, 3 … without holes."""
    positions = [row.position for row in rows]
    sequences: dict[tuple[str, str | None], list[int | None]] = {}
    for row in rows:
        key = (row.receipt.adapter_id, row.receipt.harness_session_id)
        sequences.setdefault(key, []).append(row.receipt.sequence)
    whole = all(found == list(range(1, len(found) + 1)) for found in sequences.values())
    holds = bool(rows) and whole and positions == list(range(1, len(rows) + 1))
    text = f"{len(sequences)} sessions count 1, 2, 3 … without holes"
    return Check("sequences", holds, text if holds else "a session's sequence has a hole or a repetition")


def check_facts(rows: Sequence[LedgerRow], dispatched: Sequence[str]) -> list[Check]:
    """Check that degradation and refused requirement are in the ledger, and that the refused client never ran."""
    degraded = [row for row in rows if row.receipt.status is ReceiptStatus.DEGRADED]
    refused = [row for row in rows if row.receipt.failure_class is FailureClass.CAPABILITY_UNSUPPORTED]
    ran = {row.receipt.client_id for row in refused} & set(dispatched)
    return [
        Check("degradation", bool(degraded), f"{len(degraded)} receipts say `degraded`, with what is missing"),
        Check(
            "refusal",
            bool(refused) and not ran,
            f"{len(refused)} receipts say `failed`; that client never ran",
        ),
    ]


def check_hooks(results: Sequence[HookResult], expected: int, late: int) -> list[Check]:
    """Check that every recorded call went through a hook, none hurt its harness, and the payload reached one."""
    hurt = [result for result in results if result.exit_code != 0]
    reached = [result for result in results if PAYLOAD_TEXT.encode() in result.stdout]
    spooled = f", {late} into the spool" if late else ""
    return [
        Check(
            "hooks",
            len(results) == expected and not hurt,
            f"{len(results)} of {expected} recorded calls went through it{spooled}",
        ),
        Check("payload", bool(reached), f"its text is in the stdout of {len(reached)} Codex hooks"),
    ]


def _check_follower(rows: Sequence[LedgerRow], follower: Follower) -> Check:
    wanted = [
        (row.position, row.receipt.receipt_id)
        for row in rows
        if follower.session in (None, (row.receipt.adapter_id, row.receipt.harness_session_id))
    ]
    holds = bool(wanted) and follower.seen == wanted and not follower.gaps
    text = f"saw all {len(wanted)} receipts, each once, in order"
    if follower.stopped_at is not None:
        holds = holds and follower.missed > 0
        text = f"saw all {len(wanted)}, each once, in order; was {follower.missed} behind"
    if not holds:
        text = f"saw {len(follower.seen)}, the ledger has {len(wanted)}; {_first_difference(follower.seen, wanted)}"
    return Check(follower.name, holds, text)


def _first_difference(seen: Sequence[tuple[int, str]], wanted: Sequence[tuple[int, str]]) -> str:
    for index, pair in enumerate(wanted):
        if index >= len(seen) or seen[index] != pair:
            return f"first difference at position {pair[0]}"
    return "it saw more than there is" if len(seen) > len(wanted) else "it was never behind"
