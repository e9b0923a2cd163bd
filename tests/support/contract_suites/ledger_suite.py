"""What every ledger promises; run against each implementation by tests/broker/ledger/test_ledger_contract.py."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest
import rfc8785

from lifebus_broker.ports import AppendResult, Ledger, NewReceipt, Query, StoredReceipt, is_same_content
from lifebus_contract import (
    FailureClass,
    LifecycleEvent,
    Receipt,
    ReceiptStatus,
    RetryClass,
    Warning,  # noqa: A004  the contract's own word
)
from support.contract_suites.heads import heads_of
from support.receipts import DIGEST, OTHER_DIGEST, append, entry, every_receipt, keyed, receipt, recorded

Open = Callable[..., AbstractAsyncContextManager[Ledger]]
"""Opens a new, empty ledger; takes `committed`."""


class LedgerContract:
    """Subclasses provide the fixture `opened`."""

    async def test_positions_count_from_one_without_holes(self, opened: Open) -> None:
        async with opened() as ledger:
            assert ledger.head == 0
            stored = await recorded(ledger, [entry(1), entry(2, harness_session_id="s2")])
            stored += await recorded(ledger, [entry(3, harness_session_id=None)])
            assert [one.position for one in stored] == [1, 2, 3]
            assert ledger.head == 3

    async def test_a_stored_receipt_has_its_place(self, opened: Open) -> None:
        async with opened() as ledger:
            (stored,) = await recorded(ledger, [entry(1, harness_session_id="s9", adapter_id="claude")])
            body = msgspec.json.decode(stored.receipt, type=Receipt)
            assert (stored.adapter_id, stored.harness_session_id) == ("claude", "s9")
            assert body.receipt_id == "lfr_000001"
            assert body.sequence == stored.sequence

    async def test_only_a_durable_ledger_numbers_sessions_and_does_so_without_holes(self, opened: Open) -> None:
        async with opened() as ledger:
            sessions = ["s1", "s2", "s1", None, "s1", "s2"]
            stored = await recorded(ledger, [entry(n, harness_session_id=name) for n, name in enumerate(sessions)])
            expected = [1, 1, 2, None, 3, 2] if ledger.capabilities.durable else [None] * 6
            assert [one.sequence for one in stored] == expected

    async def test_one_session_id_of_two_adapters_is_two_sessions(self, opened: Open) -> None:
        async with opened() as ledger:
            await recorded(ledger, [entry(1, adapter_id="codex"), entry(2, adapter_id="claude")])
            heads = await ledger.sessions()
            assert [(head.adapter_id, head.receipts) for head in heads] == [("codex", 1), ("claude", 1)]

    async def test_receipts_are_written_in_canonical_form(self, opened: Open) -> None:
        async with opened() as ledger:
            summary = {"zeta": 1, "alpha": 'é\u2028"\\\u0007', "beta.x": None, "beta_x": True}
            warning = Warning(code="c", message="naïve \U0001f680 \x7f")
            (stored,) = await recorded(ledger, [entry(1, telemetry_summary=summary, warnings=(warning,))])
            assert rfc8785.dumps(json.loads(stored.receipt)) == stored.receipt

    async def test_done_comes_later_and_once(self, opened: Open) -> None:
        async with opened() as ledger:
            calls: list[list[AppendResult]] = []
            assert ledger.append([entry(1)], calls.append) is None
            assert calls == []
            await recorded(ledger, [entry(2)])
            assert len(calls) == 1

    async def test_an_empty_append_is_answered_too(self, opened: Open) -> None:
        async with opened() as ledger:
            assert await append(ledger, []) == []

    async def test_new_receipts_are_published_after_they_are_acknowledged(self, opened: Open) -> None:
        log: list[str] = []

        def committed(stored: list[StoredReceipt]) -> None:
            log.extend(f"published {one.position}" for one in stored)

        async with opened(committed=committed) as ledger:
            ledger.append([entry(1), entry(2)], lambda _: log.append("acknowledged"))
            await append(ledger, [])
            assert log == ["acknowledged", "published 1", "published 2"]

    async def test_a_repeated_key_gets_the_stored_bytes_and_changes_nothing(self, opened: Open) -> None:
        published: list[StoredReceipt] = []
        async with opened(committed=published.extend) as ledger:
            (first,) = await recorded(ledger, [entry(1, key="a")])
            (again,) = await append(ledger, [entry(2, key="a", at_epoch_s=5)])
            assert again == AppendResult(stored=first, replayed=True)
            (second,) = await recorded(ledger, [entry(3, key="b")])
            assert (second.position, second.sequence) == (2, 2 if ledger.capabilities.durable else None)
            await append(ledger, [])
            assert [one.position for one in published] == [1, 2]

    async def test_a_key_repeated_within_one_append_is_recorded_once(self, opened: Open) -> None:
        async with opened() as ledger:
            first, again, other = await append(ledger, [entry(1, key="a"), entry(2, key="a"), entry(3)])
            assert again == AppendResult(stored=first.stored, replayed=True)
            assert other.stored is not None
            assert other.stored.position == 2

    async def test_a_key_with_other_content_is_a_conflict_and_takes_no_number(self, opened: Open) -> None:
        async with opened() as ledger:
            await recorded(ledger, [entry(1, key="a")])
            (answer,) = await append(ledger, [entry(2, key="a", digest=OTHER_DIGEST)])
            assert answer.refusal is not None
            assert answer.stored is None
            assert answer.refusal.failure_class is FailureClass.STATE_CONFLICT
            assert answer.refusal.code == "duplicate_id_conflict"
            assert ledger.head == 1
            (stored,) = await recorded(ledger, [entry(3)])
            assert stored.sequence in (2, None)

    async def test_a_conflict_does_not_stop_the_rest_of_its_append(self, opened: Open) -> None:
        async with opened() as ledger:
            await recorded(ledger, [entry(1, key="a")])
            bad, good = await append(ledger, [entry(2, key="a", digest=OTHER_DIGEST), entry(3, key="b")])
            assert bad.stored is None
            assert good.stored is not None
            assert good.stored.position == 2

    async def test_keys_belong_to_a_client_and_an_adapter(self, opened: Open) -> None:
        async with opened() as ledger:
            others = [entry(1, key="a"), entry(2, key="a", client_id="bob"), entry(3, key="a", adapter_id="claude")]
            assert len(await recorded(ledger, others)) == 3

    async def test_receipts_without_a_key_are_never_duplicates(self, opened: Open) -> None:
        async with opened() as ledger:
            same = receipt(1)
            stored = await recorded(ledger, [entry(1), entry(1)])
            assert [one.position for one in stored] == [1, 2]
            assert same.sequence is None

    async def test_a_receipt_that_cannot_be_written_down_is_refused_alone(self, opened: Open) -> None:
        async with opened() as ledger:
            bad, good = await append(ledger, [entry(1, key="x\ud800"), entry(2, key="y")])
            assert bad.refusal is not None
            assert bad.refusal.failure_class is FailureClass.INVALID_REQUEST
            assert bad.refusal.retry_class is RetryClass.DO_NOT_RETRY
            assert good.stored is not None
            assert (good.stored.position, good.stored.sequence) in ((1, 1), (1, None))

    async def test_find_tells_known_keys_from_unknown_ones(self, opened: Open) -> None:
        async with opened() as ledger:
            (stored,) = await recorded(ledger, [entry(1, key="a")])
            scopes = [("alice", "codex", "b"), ("alice", "codex", "a"), ("bob", "codex", "a")]
            assert await ledger.find(scopes) == [None, (DIGEST, stored), None]
            assert await ledger.find([]) == []

    async def test_reading_returns_every_receipt_in_order_page_by_page(self, opened: Open) -> None:
        async with opened() as ledger:
            stored = await recorded(ledger, keyed(range(300)))
            assert await every_receipt(ledger, limit=7) == stored
            assert await every_receipt(ledger, after=290) == stored[290:]

    async def test_a_page_says_where_it_ends_and_whether_more_is_there(self, opened: Open) -> None:
        async with opened() as ledger:
            stored = await recorded(ledger, keyed(range(5)))
            page = await ledger.read(Query(limit=3))
            assert (page.stored, page.next, page.head, page.complete) == (tuple(stored[:3]), 3, 5, False)
            page = await ledger.read(Query(after=3, limit=3))
            assert (page.stored, page.next, page.complete) == (tuple(stored[3:]), 5, True)
            page = await ledger.read(Query(after=5))
            assert (page.stored, page.next, page.complete, page.epoch) == ((), 5, True, ledger.epoch)

    async def test_a_page_is_bounded_in_bytes_but_never_empty_for_it(self, opened: Open) -> None:
        async with opened() as ledger:
            stored = await recorded(ledger, keyed(range(4)))
            page = await ledger.read(Query(max_bytes=len(stored[0].receipt) * 2))
            assert page.stored == tuple(stored[:2])
            assert not page.complete
            page = await ledger.read(Query(max_bytes=1))
            assert page.stored == tuple(stored[:1])

    async def test_an_empty_ledger_reads_as_complete(self, opened: Open) -> None:
        async with opened() as ledger:
            page = await ledger.read(Query())
            assert (page.stored, page.next, page.head, page.floor, page.complete) == ((), 0, 0, 0, True)

    @pytest.mark.parametrize(
        "filters",
        [
            {"adapter_id": "claude"},
            {"session": ("codex", "s2")},
            {"session": ("codex", "s2"), "status": ReceiptStatus.SKIPPED},
            {"session": ("codex", "nowhere")},
            {"session": ("codex", "s2"), "adapter_id": "claude"},
            {"event": LifecycleEvent.SESSION_ENDED},
            {"status": ReceiptStatus.SKIPPED},
            {"since_epoch_s": 1_790_000_100},
            {"since_epoch_s": 1_790_000_100, "session": ("claude", "s2")},
            {"since_epoch_s": 1_890_000_000},
            {"failed": True},
            {"failed": True, "session": ("codex", "s2")},
            {"canaries": False},
            {"canaries": False, "failed": True},
        ],
        ids=str,
    )
    async def test_filters_return_exactly_what_matches(self, opened: Open, filters: dict[str, object]) -> None:
        async with opened() as ledger:
            made = [
                receipt(
                    number,
                    adapter_id="claude" if number % 3 == 0 else "codex",
                    harness_session_id=f"s{number % 4}",
                    event=LifecycleEvent.SESSION_ENDED if number % 5 == 0 else LifecycleEvent.FRAME_OPENED,
                    **OUTCOMES.get(number % 7, {}),
                    at_epoch_s=1_790_000_000 + number + (300 if number == 20 else 0),
                )
                for number in range(200)
            ]
            stored = await recorded(ledger, [entry_of(item) for item in made])
            expected = [one for one, item in zip(stored, made, strict=True) if matches(item, filters)]
            assert await every_receipt(ledger, limit=10, **filters) == expected

    async def test_pruning_moves_the_floor_and_readers_below_it_are_told(self, opened: Open) -> None:
        async with opened() as ledger:
            stored = await recorded(ledger, keyed(range(10)))
            assert await ledger.prune(4, b"{}") == 4
            page = await ledger.read(Query(after=3))
            assert page.snapshot_required
            assert (page.stored, page.floor, page.complete) == ((), 4, False)
            assert await every_receipt(ledger, after=4) == stored[4:]
            assert ledger.status().floor == 4

    async def test_the_floor_never_moves_back_nor_beyond_the_head(self, opened: Open) -> None:
        async with opened() as ledger:
            await recorded(ledger, keyed(range(5)))
            assert await ledger.prune(3, b"{}") == 3
            assert await ledger.prune(1, b"{}") == 3
            assert await ledger.prune(99, b"{}") == 5
            (stored,) = await recorded(ledger, [entry(9)])
            assert stored.position == 6
            assert stored.sequence in (6, None)

    @pytest.mark.parametrize("adapter", [False, True], ids=["session", "adapter"])
    async def test_a_loss_is_told_to_those_alone_whose_receipts_were_dropped(self, opened: Open, adapter: bool) -> None:
        async with opened() as ledger:
            for number, name in enumerate(["a", "b", "a", "b", "b", "a"], 1):
                await recorded(ledger, [entry(number, adapter_id=name, harness_session_id=name)])

            def asked(name: str, after: int) -> Query:
                return Query(after=after, adapter_id=name) if adapter else Query(after=after, session=(name, name))

            assert await ledger.prune(4, b"{}") == 4
            lost = {
                (name, n) for name in "abc" for n in range(6) if (await ledger.read(asked(name, n))).snapshot_required
            }
            assert lost == {("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2), ("b", 3)}
            page = await ledger.read(asked("a", 3))
            assert ([one.position for one in page.stored], page.next, page.complete) == ([6], 6, True)
            page = await ledger.read(asked("c", 0))
            assert (page.stored, page.next, page.complete) == ((), 6, True)

    async def test_a_pruned_key_stays_as_a_tombstone(self, opened: Open) -> None:
        async with opened() as ledger:
            await recorded(ledger, keyed(range(3)))
            await ledger.prune(2, b"{}")
            ((digest, stored),) = (found or (b"", None) for found in await ledger.find([("alice", "codex", "k000000")]))
            assert (is_same_content(digest, DIGEST), is_same_content(digest, OTHER_DIGEST), stored) == (
                True,
                False,
                None,
            )
            same, other = await append(ledger, [*keyed([0]), *keyed([1], digest=OTHER_DIGEST)])
            assert same.refusal is not None
            assert (same.refusal.failure_class, same.refusal.code) == (FailureClass.STATE_CONFLICT, "history_pruned")
            assert other.refusal is not None
            assert other.refusal.code == "duplicate_id_conflict"

    async def test_heads_are_the_fold_over_the_receipts(self, opened: Open) -> None:
        async with opened() as ledger:
            events = [
                (LifecycleEvent.SESSION_STARTED, {}),
                (LifecycleEvent.FRAME_OPENED, {"frame_id": "f1", "harness_sequence": 4}),
                (LifecycleEvent.FRAME_OPENED, {"frame_id": "f2"}),
                (LifecycleEvent.FRAME_ENDED, {"frame_id": "f1", "harness_sequence": 9}),
                (LifecycleEvent.SESSION_ENDED, {}),
            ]
            made = [
                entry(number, event=event, telemetry_summary=summary, harness_session_id=name)
                for name in ("s1", "s2", None)
                for number, (event, summary) in enumerate(events)
            ]
            stored = await recorded(ledger, made[:-6]) + await recorded(ledger, made[-6:])
            heads = await ledger.sessions()
            assert heads == list(heads_of(stored).values())
            assert (heads[0].ended, heads[0].open_frames, heads[0].harness_sequence) == (True, ("f2",), 9)
            assert await ledger.sessions(("codex", "s2")) == heads[1:]
            assert await ledger.sessions(("codex", "s3")) == []

    async def test_a_session_with_a_receipt_is_never_new_not_even_when_that_was_pruned(self, opened: Open) -> None:
        async with opened() as ledger:
            await recorded(ledger, [entry(1), entry(2, harness_session_id=None)])
            assert not ledger.is_new(("codex", "s1"))
            await ledger.prune(2, b"{}")
            assert not ledger.is_new(("codex", "s1"))

    async def test_a_sound_ledger_verifies(self, opened: Open) -> None:
        async with opened() as ledger:
            assert await ledger.verify() == []
            await recorded(ledger, keyed(range(50)))
            await recorded(ledger, [entry(n, harness_session_id=None, key=f"n{n}") for n in range(5)])
            assert await ledger.verify() == []
            assert await ledger.verify(tail=7) == []
            await ledger.prune(20, b"{}")
            assert await ledger.verify() == []

    async def test_closing_records_what_was_taken_and_refuses_the_rest(self, opened: Open) -> None:
        async with opened() as ledger:
            answers: list[AppendResult] = []
            for number in range(20):
                assert ledger.append([entry(number)], answers.extend) is None
            await ledger.aclose()
            await ledger.aclose()
            assert [answer.stored.position for answer in answers if answer.stored] == list(range(1, 21))
            refusal = ledger.append([entry(99)], answers.extend)
            assert refusal is not None
            assert (refusal.code, refusal.retry_class) == ("closed", RetryClass.SAFE_RETRY)

    async def test_status_says_what_the_ledger_promises(self, opened: Open) -> None:
        async with opened() as ledger:
            await recorded(ledger, [entry(1)])
            status = ledger.status()
            assert (status.epoch, status.head, status.floor, status.queued) == (ledger.epoch, 1, 0, 0)
            assert status.writable
            assert (status.durability == "none") is not ledger.capabilities.durable
            assert len(ledger.epoch) == len(bytes.fromhex(ledger.epoch)) * 2 == 32


OUTCOMES: dict[int, dict[str, Any]] = {
    0: {"status": ReceiptStatus.SKIPPED},
    1: {"status": ReceiptStatus.FAILED, "failure_class": FailureClass.TIMEOUT},
    2: {"telemetry_summary": {"session_end": "failed"}},
    3: {"client_id": "lifebus.hook", "telemetry_summary": {"source_hook": "lifebus.canary"}},
}
"""What is odd about every seventh receipt, and about those behind it."""


def entry_of(made: Receipt) -> NewReceipt:
    """Return the entry of a receipt without a key."""
    return NewReceipt(receipt=made)


def matches(made: Receipt, filters: dict[str, object]) -> bool:
    """Say whether a receipt passes the filters, spelled out once more."""
    session = filters.get("session", (made.adapter_id, made.harness_session_id))
    since = filters.get("since_epoch_s", 0)
    return (
        filters.get("adapter_id", made.adapter_id) == made.adapter_id
        and session == (made.adapter_id, made.harness_session_id)
        and filters.get("event", made.event) == made.event
        and filters.get("status", made.status) == made.status
        and isinstance(since, int)
        and made.at_epoch_s >= since
        and not (filters.get("failed") and not failed(made))
        and not (filters.get("canaries") is False and "source_hook" in made.telemetry_summary)
    )


def failed(made: Receipt) -> bool:
    """Say whether one of the receipts of `OUTCOMES` tells of a failure."""
    ended = made.event is LifecycleEvent.SESSION_ENDED and "session_end" in made.telemetry_summary
    return made.status is ReceiptStatus.FAILED or ended
