"""Approvals that an app-server waits for: how one is named.  Pure."""

import json


def approval_id(thread_id: str, turn_id: str | None, request_id: int | str) -> str:
    """Return the name of an approval: it is never that of another one, also after the app-server was started again.

    A server counts its requests from 0 in each process, so that the number alone would come again; a turn runs in one
    process only.  The request's id stands there as JSON, so that 1 and ``"1"`` are two.
    """
    return f"{turn_id or thread_id}:{json.dumps(request_id)}"
