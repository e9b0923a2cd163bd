"""The file of a made-up session: what it holds, how far it was read, and which levels of pressure it has shown."""

from collections.abc import AsyncIterator, Sequence

import anyio

from lifebus_adapters.shared.telemetry import Fact, Usage
from lifebus_broker.state.pressure import Thresholds, next_level
from lifebus_contract import PressureLevel
from lifebus_supervisor.tailing.events import FileUpdate, TailedFile

SESSION = "s1"
WINDOW = 1_000


class SimulatedTail:
    """A tail of that one file; after a restart all of it is history."""

    def __init__(self) -> None:
        self.lines: list[Fact] = []
        self.offset = 0
        self.history = 0
        self.levels: list[PressureLevel] = []

    def restart(self) -> None:
        self.offset, self.history = 0, len(self.lines)

    def follow(self, adapter_id: str, session: str, path: str) -> bool:
        return True

    def forget(self, adapter_id: str, session: str) -> None: ...

    async def poll(self) -> Sequence[FileUpdate]:
        old, new = self.lines[self.offset : self.history], self.lines[max(self.offset, self.history) :]
        self.offset = len(self.lines)
        self._note([*old, *new])
        return [
            FileUpdate(
                adapter_id="codex",
                source_id="rollout",
                path="/t/s1",
                session=SESSION,
                facts=tuple(facts),
                grown=0 if history else len(facts),
                history=history,
            )
            for facts, history in ((old, True), (new, False))
            if facts
        ]

    async def poll_session(self, adapter_id: str, session: str, within_s: float) -> Sequence[FileUpdate]:
        return await self.poll()

    def _note(self, facts: list[Fact]) -> None:
        used = [fact.used_tokens for fact in facts if isinstance(fact, Usage)]
        if not used:
            return
        held = self.levels[-1] if self.levels else None
        level = next_level(held, used[-1], WINDOW, Thresholds())
        assert level is not None
        if level is not held:
            self.levels.append(level)

    def files(self) -> Sequence[TailedFile]:
        return ()

    async def changes(self) -> AsyncIterator[None]:
        await anyio.sleep_forever()
        yield
