"""The bodies of the verbs by which an operator ends a session, or has it forgotten."""

from lifebus_contract.fields import Document, Identifier, refuse_unprintable


class CloseSession(Document, frozen=True, kw_only=True):
    """`session_close`: end a session that is open, in the name of an operator; its open frames end before it.

    See docs/sessions.md, "Closing and forgetting".
    """

    client_id: Identifier
    adapter_id: Identifier
    session: Identifier

    def __post_init__(self) -> None:
        if not f"{self.client_id}{self.adapter_id}{self.session}".isprintable():
            refuse_unprintable(self)


class ForgetSession(CloseSession, frozen=True, kw_only=True):
    """`session_forget`: drop what is kept of a session beside its receipts, and leave it out of lists."""


class SessionReceipts(Document, frozen=True, kw_only=True):
    """The answer to both: the receipts that say it, with their positions; none where it was forgotten already."""

    receipts: tuple[bytes, ...]
    positions: tuple[int, ...]
