"""A peer of the API without any transport: it notes what it is sent, unless it is gone."""

from dataclasses import dataclass, field
from typing import Any

from lifebus_contract import LifebusError


@dataclass(eq=False)
class FakePeer:
    """`sent` holds number, verb and body of each message."""

    identity: str
    is_operator: bool = True
    gone: bool = False
    sent: list[tuple[int, str, object]] = field(default_factory=list[tuple[int, str, object]])

    def send(self, number: int, verb: str, body: object) -> bool:
        if not self.gone:
            self.sent.append((number, verb, body))
        return not self.gone


@dataclass
class FakeCall:
    """A call whose answer is kept in `answers`."""

    peer: FakePeer
    in_reply_to: int = 0
    answers: list[Any] = field(default_factory=list[Any])

    def answer(self, body: object) -> None:
        self.answers.append(body)

    def refuse(self, fault: LifebusError) -> None:
        self.answers.append(fault)
