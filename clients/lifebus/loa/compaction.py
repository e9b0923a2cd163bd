"""Which contexts of a run may be made smaller, and what a harness is told of it.  Pure."""

from typing import Final

from lifebus_contract.runs import RunInfo

AGGRESSIVE: Final = (
    "Keep as little as possible: what was decided and why, what is still to be done, open questions, and the names of"
    " the files that matter."
)
"""What a harness is told where a compaction is to be aggressive; what it keeps otherwise is its own choice."""


def phases_to_compact(run: RunInfo, preserved: tuple[str, ...]) -> list[str]:
    """Return the phases that were tried and are not to be preserved, those of one session once.

    A phase that has gone on from the session of a preserved one has the same context: that stays as it is.
    """
    sessions = {
        step.step_id: next((one.session for one in reversed(step.tries) if one.session is not None), None)
        for step in run.steps
        if step.tries
    }
    taken = {session for name, session in sessions.items() if name in preserved and session is not None}
    found: list[str] = []
    for name, session in sessions.items():
        if name in preserved or session in taken:
            continue
        found.append(name)
        if session is not None:
            taken.add(session)
    return found
