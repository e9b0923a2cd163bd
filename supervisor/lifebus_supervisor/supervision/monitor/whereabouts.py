"""Where a session works and what it is called, as its files say it, and what of that is to be recorded.  Pure."""

from typing import Any

from msgspec import structs

from lifebus_adapters.shared.telemetry import Whereabouts
from lifebus_broker.privacy import Privacy
from lifebus_broker.state.session_state import SessionState
from lifebus_broker.state.telemetry_keys import CWD, GIT_BRANCH, TITLE


def on_whereabouts(known: Whereabouts | None, fact: Whereabouts) -> Whereabouts:
    """Take what a file says; what it does not say stays as it was."""
    if known is None:
        return fact
    return structs.replace(
        fact,
        cwd=fact.cwd or known.cwd,
        git_branch=fact.git_branch or known.git_branch,
        title=fact.title or known.title,
    )


def unrecorded_place(known: Whereabouts | None, state: SessionState, privacy: Privacy) -> dict[str, Any]:
    """Return the facts in which the files differ from the ledger, in the form in which they are recorded.

    The directory fills a gap only, because hooks say it with every call; so does the branch with which a session began.
    """
    if known is None:
        return {}
    branch = known.git_branch if not known.at_start or state.git_branch is None else None
    said = {CWD: known.cwd if state.cwd is None else None, GIT_BRANCH: branch, TITLE: known.title}
    recorded = {CWD: state.cwd, GIT_BRANCH: state.git_branch, TITLE: state.title}
    # Compared as recorded: what `privacy` leaves out or shortens would be found again with every pass.
    return {
        key: text
        for key, text in said.items()
        if text is not None and privacy.recorded(key, text) not in {None, recorded[key]}
    }
