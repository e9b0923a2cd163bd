"""Short names of sessions: ``api#3`` is the third session that began in a folder called ``api``.  Pure.

Nothing is kept for them: a name follows from what every session's first receipt says, and from the order of those.  So
a session has the same name after a restart, in a boot and in an import, whatever was pruned meanwhile.
"""

from typing import Final

import msgspec
from msgspec import Struct

from lifebus_broker.state.session_table import SessionKey, SessionTable


class _Beginning(Struct):
    """What a name is made of, of the state of a session."""

    adapter_id: str
    harness_session_id: str
    first_position: int = 0
    folder: str = ""


_DECODE: Final = msgspec.json.Decoder(_Beginning).decode


def session_names(table: SessionTable) -> dict[SessionKey, str]:
    """Return the name of every session; one that began in no known folder is called after its adapter."""
    begun = [
        (state.first_position, state.folder or state.adapter_id, (state.adapter_id, state.harness_session_id))
        for state in table.decoded.values()
    ]
    for _, sealed in table.sealed.in_order():
        one = _DECODE(sealed)
        begun.append((one.first_position, one.folder or one.adapter_id, (one.adapter_id, one.harness_session_id)))
    begun.sort()
    counted: dict[str, int] = {}
    names: dict[SessionKey, str] = {}
    for _, label, key in begun:
        number = counted[label] = counted.get(label, 0) + 1
        names[key] = f"{label}#{number}"
    return names
