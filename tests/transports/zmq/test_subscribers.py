"""How much one connection may subscribe to."""

from lifebus_transports.zmq.subscribers import MAX_TOPIC_BYTES, MAX_TOPICS, Subscribers


def test_topics_are_bounded_in_number_and_those_that_go_make_room() -> None:
    subscribers = Subscribers()
    assert all(subscribers.admits(b"0:1", b"\x01r/%d" % number) for number in range(MAX_TOPICS))
    assert not subscribers.admits(b"0:1", b"\x01r/one more")
    assert subscribers.admits(b"0:1", b"\x01r/0"), "it is one of them"
    assert subscribers.admits(b"0:2", b"\x01r/one more")
    assert subscribers.admits(b"0:1", b"\x00r/0")
    assert subscribers.admits(b"0:1", b"\x01r/one more")
    assert not subscribers.admits(b"0:1", b"\x01r/0")


def test_topics_are_bounded_in_bytes() -> None:
    subscribers = Subscribers()
    topic = b"r/" + b"x" * (MAX_TOPIC_BYTES // 2 - 2)
    assert subscribers.admits(b"0:1", b"\x01" + topic)
    assert not subscribers.admits(b"0:1", b"\x01" + topic + b"y")
    assert subscribers.admits(b"0:1", b"\x01" + topic[:-1] + b"y")
    assert not subscribers.admits(b"0:1", b"\x01z")


def test_ends_of_topics_that_it_never_had_and_other_messages_make_no_room() -> None:
    subscribers = Subscribers()
    for number in range(MAX_TOPICS):
        assert subscribers.admits(b"0:1", b"\x01r/%d" % number)
        assert subscribers.admits(b"0:1", b"\x00r/of nobody %d" % number)
        assert subscribers.admits(b"0:1", b"a message")
        assert subscribers.admits(b"0:1", b"")
    assert not subscribers.admits(b"0:1", b"\x01r/one more")
