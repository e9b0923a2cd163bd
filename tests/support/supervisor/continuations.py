"""Records and stores for the tests."""

from pathlib import Path
from typing import Any

from msgspec import structs

from lifebus_broker.disk import Disk
from lifebus_supervisor.renewal.choosing import RenewalStart
from lifebus_supervisor.renewal.records import Continuation, ContinuationState
from lifebus_supervisor.renewal.store import ContinuationStore

NOW = 1_800_000_000
TTL = 3_600


def intent(payload_id: str = "pay_1", session: str = "s1", **changes: Any) -> Continuation:
    fields: dict[str, Any] = {
        "payload_id": payload_id, "profile": "p", "client_id": "c", "adapter_id": "codex", "session": session,
        "cwd": "/work", "state": ContinuationState.PREPARING, "created_at": NOW, "expires_at": NOW + TTL,
    }  # fmt: skip
    return Continuation(**{**fields, **changes})


def pending(payload_id: str = "pay_1", thread: str = "t1", token: str = "secret", **changes: Any) -> Continuation:
    size = len(token.encode())
    return intent(
        payload_id, **{"state": ContinuationState.PENDING, "thread": thread, "token": token, "size": size, **changes}
    )


def start(session: str = "s2", cwd: str | None = "/work", **changes: str) -> RenewalStart:
    return structs.replace(RenewalStart(profile="p", adapter_id="codex", session=session, cwd=cwd), **changes)


class Clock:
    """A clock that stands until it is set."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def store_in(directory: Path, *, disk: Disk | None = None, clock: Clock | None = None) -> ContinuationStore:
    return ContinuationStore(directory / "continuations", clock or Clock(), disk)


def states(store: ContinuationStore) -> list[tuple[str, str]]:
    return [(one.payload_id, one.state.value) for one in store.records()[0]]
