"""The bodies of the verb `tick`."""

from lifebus_contract.fields import Document, Identifier, refuse_unprintable


class Tick(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`tick`: have the broker examine its harnesses now: all, those of one adapter, or one session.

    See docs/contract.md 2.6.
    """

    client_id: Identifier
    adapter_id: Identifier | None = None
    session: Identifier | None = None

    def __post_init__(self) -> None:
        # A session id is unique within its adapter alone.
        if self.session is not None and self.adapter_id is None:
            raise ValueError("session: a session is named together with its adapter")
        if not f"{self.client_id}{self.adapter_id}{self.session}".isprintable():
            refuse_unprintable(self)


class TickAnswer(Document, frozen=True, kw_only=True):
    """The answer to `tick`: the stored receipts of what was observed, `supervisor.tick` among them, and the counts.

    `sessions` and `files` say how many were checked, `degraded` how many capabilities are weaker than claimed.
    """

    receipts: tuple[bytes, ...]
    positions: tuple[int, ...]
    sessions: int
    files: int
    degraded: int
