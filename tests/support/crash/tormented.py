"""`lifebus up` and `lifebus flow …`, which die or stop at one of their writes of a run's records.

The variable ``TORMENT`` says when and how: ``before:3:kill`` is before the third write is handed over, ``after:3:stop``
once it is durable and before anything is done about it, with SIGSTOP: then somebody else decides what dies.
"""

import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

from lifebus.cli.flows.here import BusPort
from lifebus_broker.ledger.sqlite.journal import SqliteJournal
from lifebus_broker.ports import NewRecord, Record, Refusal
from support.fork_server import command_line

_NUMBERS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def broker(*arguments: str) -> None:
    """Be `lifebus`, whose journal ends it."""
    when, left, end = _plan()
    append = SqliteJournal.append

    def dying(
        self: SqliteJournal, records: Sequence[NewRecord], done: Callable[[list[Record] | Refusal], None]
    ) -> Refusal | None:
        if any(one.stream.startswith("run/") for one in records):
            left[0] -= 1
            if not left[0] and when == "before":
                end()
            if not left[0] and when == "after":
                done = _first(end, done)
        return append(self, records, done)

    SqliteJournal.append = dying  # type: ignore[method-assign]
    command_line(*arguments)


def owner(*arguments: str) -> None:
    """Be `lifebus`, which dies when it has a run recorded that it runs itself."""
    when, left, end = _plan()
    record = BusPort.record

    async def dying(self: BusPort, *given: Any) -> Any:
        left[0] -= 1
        if not left[0] and when == "before":
            end()
        answer = await record(self, *given)
        if not left[0] and when == "after":
            end()
        return answer

    BusPort.record = dying  # type: ignore[method-assign,assignment]
    command_line(*arguments)


def _plan() -> tuple[str, list[int], Callable[[], None]]:
    when, number, how = os.environ.get("TORMENT", "never:0:kill").split(":")
    return when, [int(number)], lambda: os.kill(os.getpid(), _NUMBERS[how])


def _first(
    end: Callable[[], None], done: Callable[[list[Record] | Refusal], None]
) -> Callable[[list[Record] | Refusal], None]:
    def both(result: list[Record] | Refusal) -> None:
        end()
        done(result)  # after SIGSTOP, if somebody lets it go on

    return both
