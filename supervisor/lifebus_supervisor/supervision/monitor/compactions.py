"""Which compactions are proved, and how many of them are not on record yet.  Pure.

Hooks, files and app-servers report the same compactions under different names, so they cannot be matched one by one:
they are counted.  What is recorded already is counted against what each source proves.
"""

from typing import Final

from msgspec import Struct, structs

from lifebus_adapters.shared.telemetry import Compacted, Usage

MATCH_S: Final = 120
"""How far apart a hook and a file may be that report the same compaction, in seconds."""


class CompactionProof(Struct, frozen=True):
    """A compaction that a source proves, which kind of source, and what was measured before it and not since."""

    fact: Compacted
    source: str
    before: Usage | None = None


class CompactionState(Struct, frozen=True, kw_only=True):
    """The proofs of a session's compactions, and what they are counted against."""

    # What files prove, by the key of each compaction, oldest first.
    in_files: dict[str, CompactionProof] = {}
    # What an app-server has reported since it was first seen, likewise.
    from_app_server: dict[str, CompactionProof] = {}
    # How many were on record when the app-server was first seen; None where none is known.
    recorded_before_app_server: int | None = None
    # How many were on record when the session was loaded; recent ones, which may not be in the file yet, are left out.
    recorded_at_load: int = 0
    # How many the file proves from before the session was supervised: they are no news.
    before_supervision: int = 0
    # How many of those on record the file does not hold, as found when it was first read.
    absent_from_files: int = 0
    # Whether the ledger knew nothing of the session when it was loaded.
    new_to_ledger: bool = False
    # The tick since which proofs wait for the hook that should report the same; None while none does.
    waiting_since_tick: int | None = None

    def unrecorded(self, recorded: int) -> int:
        """How many are proved and not among the `recorded` ones; below 0 where hooks were faster."""
        return max(self._unrecorded_in_files(recorded), self._unrecorded_from_app_server(recorded))

    def unrecorded_proofs(self, recorded: int) -> dict[str, CompactionProof]:
        """Return the newest proofs, as many as are not recorded, from the source that proves most."""
        count = self.unrecorded(recorded)
        if count <= 0:
            return {}
        by_server = self.recorded_before_app_server is not None
        by_server = by_server and self._unrecorded_from_app_server(recorded) >= self._unrecorded_in_files(recorded)
        proofs = self.from_app_server if by_server else self.in_files
        return {key: proofs[key] for key in list(proofs)[-count:]}

    def _unrecorded_in_files(self, recorded: int) -> int:
        return len(self.in_files) + self.absent_from_files - self.before_supervision - recorded

    def _unrecorded_from_app_server(self, recorded: int) -> int:
        if self.recorded_before_app_server is None:
            return self._unrecorded_in_files(recorded)
        return len(self.from_app_server) + self.recorded_before_app_server - recorded


def on_loaded(state: CompactionState, *, recorded: int, recent: int, before: int, is_new: bool) -> CompactionState:
    """Take what the ledger knows: compactions on record, how many of them are recent, and how many were before."""
    state = structs.replace(
        state,
        new_to_ledger=is_new,
        recorded_at_load=recorded - recent,
        before_supervision=max(state.before_supervision, before),
    )
    read = on_history_read(state)
    # Of a session that was forgotten and returns, what the file lacked it lacks still.
    return structs.replace(read, absent_from_files=max(read.absent_from_files, state.absent_from_files))


def read_so_far(state: CompactionState) -> CompactionState:
    """Return what files have shown, for a session that is forgotten: they are read on, and not again."""
    return CompactionState(
        in_files=state.in_files,
        before_supervision=state.before_supervision,
        absent_from_files=state.absent_from_files,
    )


def on_history_read(state: CompactionState) -> CompactionState:
    """Compare what a file held when it was first read with what was on record: it may hold less."""
    absent = max(0, state.recorded_at_load + state.before_supervision - len(state.in_files))
    return state if absent == state.absent_from_files else structs.replace(state, absent_from_files=absent)


def on_proof(
    state: CompactionState, fact: Compacted, source: str, *, is_old: bool, before: Usage | None = None
) -> CompactionState:
    """Take what a file proves; `is_old` says that it stood there before anybody supervised the session.

    `before` is the newest usage that was known until then.
    """
    if fact.key in state.in_files:
        return state
    proofs = {**state.in_files, fact.key: CompactionProof(fact, source, before)}
    return structs.replace(state, in_files=proofs, before_supervision=state.before_supervision + is_old)


def on_app_server(state: CompactionState, recorded: int, *, opens_thread: bool = False) -> CompactionState:
    """Take that an app-server reports while so many compactions are on record.

    A thread that is opened anew may have been compacted elsewhere meanwhile: what is on record by then is not counted
    against what this app-server reports.
    """
    before = state.recorded_before_app_server
    if before is None:
        return structs.replace(state, recorded_before_app_server=recorded)
    if not opens_thread:
        return state
    return structs.replace(state, recorded_before_app_server=max(before, recorded - len(state.from_app_server)))


def on_app_server_proof(
    state: CompactionState, fact: Compacted, source: str, before: Usage | None = None
) -> CompactionState:
    """Take a compaction that an app-server reported; `before` is the newest usage that was known until then."""
    if fact.key in state.from_app_server:
        return state
    proofs = {**state.from_app_server, fact.key: CompactionProof(fact, source, before)}
    return structs.replace(state, from_app_server=proofs)


def on_evaluation(state: CompactionState, *, recorded: int, tick: int, awaits_hook: bool) -> CompactionState:
    """Start or end the wait for the hook that should report what is proved."""
    if state.unrecorded(recorded) <= 0:
        return state if state.waiting_since_tick is None else structs.replace(state, waiting_since_tick=None)
    if awaits_hook and state.waiting_since_tick is None:
        return structs.replace(state, waiting_since_tick=tick)
    return state
