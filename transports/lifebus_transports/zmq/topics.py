"""The subscribed topics of one kind, so that nothing is encoded without a subscriber.  Sans-IO."""

from typing import Final

MAX_TOPIC: Final = 8_192
"""Most bytes of a topic: two percent-encoded identifiers of 256 characters fit."""

_DELIMITERS = 3
_MAX_WHOLE = 65_536
_MAX_PREFIXES = 1_024


class Topics:
    """The subscriptions to topics ``<kind>/<adapter>/<session or thread>/`` below `root`, and to whatever is `beside`.

    Whole topics and prefixes of topics are kept apart, because each prefix is compared with every message.  Both are
    bounded: a subscription beyond the bound is not served live; its owner notices by the beacons and reads the ledger.
    """

    def __init__(self, root: bytes, *beside: bytes) -> None:
        self._root = root
        self._beside = frozenset(one[:size] for one in beside for size in range(1, len(one) + 1))
        self._whole: set[bytes] = set()
        self._prefixes: set[bytes] = set()

    def update(self, message: bytes) -> bool:
        """Take a subscription message of an XPUB socket; False when it is not one, is too long or one too many."""
        # 1 subscribes, 0 unsubscribes; anything else is no subscription message.
        if not message or message[0] > 1 or len(message) > MAX_TOPIC:
            return False
        topic = message[1:]
        if not self._concerns(topic) and topic not in self._beside:
            return True  # beacons and markers are published without regard to subscriptions
        whole = topic.count(b"/") == _DELIMITERS and topic.endswith(b"/")
        group, bound = (self._whole, _MAX_WHOLE) if whole else (self._prefixes, _MAX_PREFIXES)
        if message[0] == 0:
            group.discard(topic)
        # Beyond the bound nothing is remembered: a peer can subscribe to any number of names.
        elif len(group) < bound:
            group.add(topic)
        return message[0] == 0 or topic in group

    def is_subscribed(self, topic: bytes) -> bool:
        """Whether a message on exactly this topic would reach anybody."""
        return topic in self._whole or any(topic.startswith(prefix) for prefix in self._prefixes)

    def has_subscribers(self) -> bool:
        """Whether anything below the root is subscribed."""
        return bool(self._whole) or any(self._concerns(prefix) for prefix in self._prefixes)

    def _concerns(self, topic: bytes) -> bool:
        return topic.startswith(self._root) or self._root.startswith(topic)
