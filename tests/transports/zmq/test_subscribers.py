"""How much one connection may subscribe to."""

from lifebus_transports.zmq.subscribers import MAX_TOPIC_BYTES, MAX_TOPICS, Subscribers, SubscriptionOutcome


def judged(subscribers: Subscribers, connection: bytes, *messages: bytes) -> list[SubscriptionOutcome]:
    return [subscribers.judge(connection, message) for message in messages]


def many(count: int) -> list[bytes]:
    return [b"\x01r/%d" % number for number in range(count)]


def test_topics_are_bounded_in_number_and_those_that_go_make_room() -> None:
    subscribers = Subscribers()
    assert set(judged(subscribers, b"0:1", *many(MAX_TOPICS))) == {SubscriptionOutcome.ADMITTED}
    again, gone, other = judged(subscribers, b"0:1", b"\x01r/0", b"\x00r/0", b"\x01r/other")
    assert {again, gone, other} == {SubscriptionOutcome.ADMITTED}
    assert judged(subscribers, b"0:1", b"\x01r/0", b"\x00r/0", b"\x01r/0") == [
        SubscriptionOutcome.EXCEEDED,
        *[SubscriptionOutcome.IGNORED] * 2,
    ]
    assert judged(subscribers, b"0:2", b"\x01r/0") == [SubscriptionOutcome.ADMITTED]


def test_topics_are_bounded_in_bytes() -> None:
    subscribers = Subscribers()
    topic = b"r/" + b"x" * (MAX_TOPIC_BYTES // 2 - 2)
    assert (
        judged(subscribers, b"0:1", b"\x01" + topic, b"\x01" + topic[:-1] + b"y") == [SubscriptionOutcome.ADMITTED] * 2
    )
    assert judged(subscribers, b"0:1", b"\x01z") == [SubscriptionOutcome.EXCEEDED]


def test_ends_of_topics_that_it_never_had_and_other_messages_make_no_room() -> None:
    subscribers = Subscribers()
    for topic in many(MAX_TOPICS):
        messages = (topic, b"\x00r/of nobody", b"a message", b"")
        assert set(judged(subscribers, b"0:1", *messages)) == {SubscriptionOutcome.ADMITTED}
    assert judged(subscribers, b"0:1", b"\x01r/one more") == [SubscriptionOutcome.EXCEEDED]
