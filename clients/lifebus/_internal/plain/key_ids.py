"""Ids that follow from an idempotency key; made without any library of others.  Pure."""


def id_from_key(prefix: str, key: str, scope: str) -> str:
    """Return the id of a key within its scope, so that whoever repeats the key repeats the id."""
    import hashlib  # noqa: PLC0415  `lifebus emit` without a key needs none

    # With the prefix, so that the ids of one request differ.
    raw = f"{prefix}\0{scope}\0{key}".encode("utf-8", "surrogatepass")
    return f"{prefix}{hashlib.sha256(raw).hexdigest()[:26]}"
