"""Fan-out of committed receipts to listeners in this process."""

from collections.abc import Sequence

from lifebus_broker.ports import StoredReceipt
from lifebus_broker.routing.fan_out import Fanout


def receipt_at(position: int, session: str | None = "s1", sequence: int | None = None) -> StoredReceipt:
    return StoredReceipt(
        position=position, adapter_id="codex", harness_session_id=session, sequence=sequence, receipt=b"{}"
    )


def test_every_listener_gets_the_rows_of_a_commit_until_it_is_taken_away() -> None:
    fanout = Fanout()
    received: dict[str, list[StoredReceipt]] = {"one": [], "other": []}
    stop = fanout.listen(received["one"].extend)
    fanout.listen(received["other"].extend)
    fanout.publish([receipt_at(1), receipt_at(2)])
    stop()
    fanout.publish([receipt_at(3)])
    assert received == {"one": [receipt_at(1), receipt_at(2)], "other": [receipt_at(1), receipt_at(2), receipt_at(3)]}


def test_a_listener_that_fails_is_counted_and_hurts_no_other() -> None:
    fanout = Fanout()
    received: list[StoredReceipt] = []

    def fail(_: Sequence[StoredReceipt]) -> None:
        raise RuntimeError("no")

    fanout.listen(fail)
    fanout.listen(received.extend)
    fanout.publish([receipt_at(1)])
    assert (received, fanout.failures) == ([receipt_at(1)], 1)


def test_a_listener_may_leave_while_it_is_told() -> None:
    fanout = Fanout()
    received: list[StoredReceipt] = []

    def once(_: Sequence[StoredReceipt]) -> None:
        stop()

    stop = fanout.listen(once)
    fanout.listen(received.extend)
    fanout.publish([receipt_at(1)])
    fanout.publish([receipt_at(2)])
    assert received == [receipt_at(1), receipt_at(2)]


def test_changed_sessions_are_told_once_with_their_newest_sequence() -> None:
    fanout = Fanout()
    fanout.publish(
        [
            receipt_at(1, "s1", 1),
            receipt_at(2, "s2", 1),
            receipt_at(3, "s1", 2),
            receipt_at(4, None),
            receipt_at(5, "s3"),
        ]
    )
    assert fanout.take_changed() == {("codex", "s1"): 2, ("codex", "s2"): 1}
    assert fanout.take_changed() == {}


def test_a_transient_receipt_goes_to_its_own_listeners_alone() -> None:
    fanout = Fanout()
    stored: list[StoredReceipt] = []
    transient: list[StoredReceipt] = []
    fanout.listen(stored.extend)
    stop = fanout.listen_transient(transient.append)
    fanout.publish([receipt_at(1, sequence=1)])
    fanout.publish_transient(receipt_at(0))
    stop()
    fanout.publish_transient(receipt_at(0))
    assert (stored, transient, fanout.transient) == ([receipt_at(1, sequence=1)], [receipt_at(0)], 2)
    assert fanout.take_changed() == {("codex", "s1"): 1}


def test_a_listener_that_fails_on_a_transient_receipt_hurts_no_other() -> None:
    fanout = Fanout()
    received: list[StoredReceipt] = []

    def fail(_: StoredReceipt) -> None:
        raise RuntimeError("no")

    fanout.listen_transient(fail)
    fanout.listen_transient(received.append)
    fanout.publish_transient(receipt_at(0))
    assert (received, fanout.failures) == ([receipt_at(0)], 1)
