"""What a receiver of webhooks does to know that a message is genuine, written from the specification."""

import base64
import hashlib
import hmac

from support.inbox.http_receiver import Post


def is_genuine(post: Post, key: bytes) -> bool:
    """Whether a post is signed with a key, as https://www.standardwebhooks.com has it."""
    signed = b".".join([post.headers["webhook-id"].encode(), post.headers["webhook-timestamp"].encode(), post.body])
    version, _, given = post.headers["webhook-signature"].partition(",")
    expected = hmac.new(key, signed, hashlib.sha256).digest()
    return version == "v1" and hmac.compare_digest(base64.b64decode(given), expected)
