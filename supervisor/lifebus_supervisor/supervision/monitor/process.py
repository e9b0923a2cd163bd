"""Which process is the harness of a session, and whether it is still there.  Pure.

A hook names the process that called it.  That may be the harness, or a helper that the harness starts for each hook.
"""

from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct, structs

from lifebus_adapters.adapter import CallerProcess

_MAX_OTHERS: Final = 3


class ProcessState(Struct, frozen=True, kw_only=True):
    """The processes behind a session."""

    # The harness, as far as is known; None before a process is confirmed.
    harness: CallerProcess | None = None
    # Processes that have the session open as well, the newest last: harnesses before this one that are still alive.
    others: tuple[CallerProcess, ...] = ()
    # The process of the last hook, until it is known to be more than a helper.
    candidate: CallerProcess | None = None
    # The process of the newest call, and that call's id.
    caller: CallerProcess | None = None
    call_id: str = ""
    # The process that ended the session.  It may live on for another session, and then says nothing of this one.
    ended_by: CallerProcess | None = None
    # How the process announced that it ends with all its sessions; None while it has not.
    exit_evidence: str | None = None
    # Consecutive ticks in which no process of the session was alive.
    dead_ticks: int = 0

    @property
    def known(self) -> frozenset[CallerProcess]:
        """Every process whose life matters to `with_alive`."""
        return frozenset(one for one in (self.harness, self.candidate, *self.others) if one is not None)


def on_call(
    state: ProcessState,
    caller: CallerProcess | None,
    call_id: str = "",
    *,
    is_over: bool = False,
    by_harness: bool = False,
) -> ProcessState:
    """Take the process that called a hook just now; `is_over` says that the session has ended with the call.

    It counts as the harness if it called `by_harness` itself, once it has called twice, or has outlived its call
    (`settle_candidate`).
    """
    if caller is None:
        return state
    state = structs.replace(state, caller=caller, call_id=call_id)
    if caller == state.harness or caller in state.others:
        # A call by the process that ended the session opens it again: its life counts once more.
        return structs.replace(state, ended_by=None) if caller == state.ended_by and not is_over else state
    if caller != state.candidate and not by_harness:
        return structs.replace(state, candidate=caller)
    state = settle_candidate(structs.replace(state, candidate=caller), True)
    return structs.replace(state, ended_by=caller) if is_over else state


def on_late_call(
    state: ProcessState, caller: CallerProcess | None, call_id: str, *, is_outdated: bool, is_over: bool
) -> ProcessState:
    """Take the process of a call that comes from the spool: it called some time ago, and may be gone by now.

    It counts as the harness once it has called twice; `is_over` as in `on_call`.  A call `is_outdated` where a newer
    one came at once: whoever made that one has the session now.
    """
    # A call that was answered too late, or whose spool is read again, is no second call.
    if caller is None or call_id == state.call_id:
        return state
    is_known = caller == state.harness or caller in state.others
    if not is_known and caller in {state.caller, state.candidate}:
        return settle_candidate(structs.replace(state, candidate=caller), True)
    if is_outdated:
        return state
    return on_call(state, caller, call_id, is_over=is_over)


def on_hook(state: ProcessState) -> ProcessState:
    """Take a hook that has just come: somebody was alive to call it."""
    return structs.replace(state, dead_ticks=0)


def settle_candidate(state: ProcessState, alive: bool) -> ProcessState:
    """Make the candidate the harness where it is still alive, else forget it."""
    if not alive or state.candidate is None:
        return structs.replace(state, candidate=None)
    others = state.others
    if state.harness is not None and state.harness != state.ended_by:
        others = (*others, state.harness)[-_MAX_OTHERS:]
    return structs.replace(state, harness=state.candidate, others=others, candidate=None)


def on_identified(state: ProcessState, process: CallerProcess | None) -> ProcessState:
    """Take a process that is known to be the harness: an app-server's observer names it."""
    state = on_call(state, process)
    if process is not None and process == state.candidate:
        return settle_candidate(state, True)
    return state


def on_exit_announced(state: ProcessState, evidence: str | None) -> ProcessState:
    """Take the announcement that the process ends with all its sessions; None takes it back."""
    return structs.replace(state, exit_evidence=evidence)


def ends_with(state: ProcessState, exiting: CallerProcess, alive: AbstractSet[CallerProcess]) -> bool:
    """Whether the session ends with a process that ends: it has it open, and no other one that is `alive` does."""
    if exiting == state.ended_by or exiting not in state.known | {state.caller}:
        return False
    # The process that ended the session before may live on for another one.
    return not (state.known - {exiting, state.ended_by}) & alive


def on_session_ended(state: ProcessState) -> ProcessState:
    """Take the end of the session: from now on the life of its process does not show that the session is open."""
    return structs.replace(state, others=(), ended_by=state.harness, exit_evidence=None)


def with_alive(state: ProcessState, alive: AbstractSet[CallerProcess]) -> tuple[ProcessState, bool | None]:
    """Return the state without dead others, and whether a process of the session lives; None where that is unknown.

    `alive` holds those of `state.known` that live.  The newest living one stands for the harness.
    """
    if state.harness is None:
        return state, None
    others = tuple(one for one in state.others if one in alive)
    if len(others) != len(state.others):
        state = structs.replace(state, others=others)
    if state.harness in alive:
        return state, True
    if others:
        return structs.replace(state, harness=others[-1], others=others[:-1]), True
    # A session that was resumed elsewhere is not over because the process that ended it before is gone.
    is_unknown = state.harness == state.ended_by or state.candidate is not None
    return state, None if is_unknown else False


def on_recorded(state: ProcessState, text: str | None) -> ProcessState:
    """Take the process that the ledger names, where none is known yet."""
    return state if state.harness is not None or text is None else structs.replace(state, harness=process_of(text))


def on_liveness(state: ProcessState, alive: bool | None) -> ProcessState:
    """Count one tick in which the processes were checked; None says that nothing is known, and counts nothing."""
    if alive is None or state.exit_evidence is not None:
        return state
    return structs.replace(state, dead_ticks=0 if alive else state.dead_ticks + 1)


def process_text(process: CallerProcess) -> str:
    """Return the form in which receipts name a process: ``<pid>@<start>``."""
    return f"{process.pid}@{process.started}"


def process_of(text: str | None) -> CallerProcess | None:
    """Return the process that a receipt names, None where it names none."""
    pid, at, started = (text or "").partition("@")
    # isdigit alone takes `²`, which is no number.
    if not at or not pid.isascii() or not pid.isdigit():
        return None
    return CallerProcess(pid=int(pid), started=started)
