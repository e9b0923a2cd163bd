"""What the demonstration claims, checked against the ledger.  Pure."""

from collections.abc import Sequence

from msgspec import Struct

from lifebus.demo.participants import PAYLOAD_TEXT, DemoFollower
from lifebus.demo.replay import HookResult
from lifebus_contract import FailureClass, Receipt, ReceiptStatus


class RecordedReceipt(Struct, frozen=True):
    """A receipt in the ledger, and its position."""

    position: int
    receipt: Receipt

    @property
    def session(self) -> tuple[str, str | None]:
        """Adapter id and session id."""
        return self.receipt.adapter_id, self.receipt.harness_session_id


class Check(Struct, frozen=True):
    """One claim, whether it holds, and in one line why."""

    name: str
    holds: bool
    text: str


def check_follower(recorded: Sequence[RecordedReceipt], follower: DemoFollower) -> Check:
    """Compare what a follower saw with the ledger: every receipt, exactly once, in order, nothing else."""
    wanted = [(one.position, one.receipt.receipt_id) for one in recorded if follower.session in (None, one.session)]
    if not wanted or follower.seen != wanted or follower.gaps or follower.behind == 0:
        difference = _first_difference(follower.seen, wanted)
        return Check(follower.name, False, f"saw {len(follower.seen)}, the ledger has {len(wanted)}; {difference}")
    late = "" if follower.behind is None else f"; was {follower.behind} behind"
    return Check(follower.name, True, f"saw all {len(wanted)} receipts, each once, in order{late}")


def check_sequences(recorded: Sequence[RecordedReceipt]) -> Check:
    """Check that positions and the sequences of each session count 1, 2, 3 … without holes."""
    numbers: dict[object, list[int | None]] = {"positions": [one.position for one in recorded]}
    for one in recorded:
        numbers.setdefault(one.session, []).append(one.receipt.sequence)
    holds = bool(recorded) and all(found == list(range(1, len(found) + 1)) for found in numbers.values())
    text = f"{len(numbers) - 1} sessions count 1, 2, 3 … without holes"
    return Check("sequences", holds, text if holds else "a session's sequence has a hole or a repetition")


def check_facts(recorded: Sequence[RecordedReceipt], dispatched: Sequence[str]) -> list[Check]:
    """Check that degradation and refused requirement are in the ledger, and that the refused client never ran."""
    degraded = [one for one in recorded if one.receipt.status is ReceiptStatus.DEGRADED]
    refused = [one for one in recorded if one.receipt.failure_class is FailureClass.CAPABILITY_UNSUPPORTED]
    # A refused client must not have seen the dispatch at all.
    ran = {one.receipt.client_id for one in refused} & set(dispatched)
    return [
        Check("degradation", bool(degraded), f"{len(degraded)} receipts say `degraded`, with what is missing"),
        Check("refusal", bool(refused) and not ran, f"{len(refused)} receipts say `failed`; that client never ran"),
    ]


def check_hooks(results: Sequence[HookResult], expected: int, spooled: int) -> list[Check]:
    """Check that every recorded call went through a hook, all exited 0, and the payload reached one of them."""
    failed = [result for result in results if result.exit_code != 0]
    reached = [result for result in results if PAYLOAD_TEXT.encode() in result.stdout]
    text = f"{len(results)} of {expected} recorded calls went through it"
    text += f", {spooled} into the spool" if spooled else ""
    return [
        Check("hooks", len(results) == expected and not failed, text),
        Check("payload", bool(reached), f"its text is in the stdout of {len(reached)} Codex hooks"),
    ]


def _first_difference(seen: Sequence[tuple[int, str]], wanted: Sequence[tuple[int, str]]) -> str:
    for index, pair in enumerate(wanted):
        if index >= len(seen) or seen[index] != pair:
            return f"first difference at position {pair[0]}"
    return "it saw more than there is" if len(seen) > len(wanted) else "it was never behind"
