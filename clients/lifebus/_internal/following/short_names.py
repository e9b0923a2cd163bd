"""Sessions as programs name them: by adapter and id, or by the short name that people see."""

from lifebus._internal.connection import Connection
from lifebus_contract import InvalidRequest
from lifebus_contract.views import SessionHead
from lifebus_transports.adapter_names import adapter_id_of
from lifebus_transports.messages.reads import SessionsQuery

SessionName = tuple[str, str] | str
"""(adapter_id, harness_session_id), or the short name that lifebus gives a session: ``api#3``."""


async def heads_of(
    connection: Connection, session: SessionName | None, timeout_s: float, *, forgotten: bool = False
) -> list[SessionHead]:
    """Return what the ledger knows of all sessions, or of one; nothing where there is none of that name.

    With `forgotten`, the list also has sessions that were forgotten.
    """
    query = SessionsQuery(session=None if isinstance(session, str) else session, forgotten=forgotten)
    heads = await connection.ask("sessions", query, list[SessionHead], timeout=timeout_s)
    return [head for head in heads if head.name == session] if isinstance(session, str) else heads


async def whole_name(connection: Connection, name: str, timeout_s: float) -> tuple[str, str]:
    """Return adapter id and session id of a short name.

    Raises:
        InvalidRequest: no session is called so.
    """
    heads = await heads_of(connection, name, timeout_s, forgotten=True)
    if not heads:
        detail = f"no session is called `{name[:64]}`; `bus.sessions()` has the names of all"
        raise InvalidRequest(detail, code="no_session", field="session")
    return heads[0].adapter_id, heads[0].harness_session_id


async def id_in_adapter(connection: Connection, adapter_id: str, session: str, timeout_s: float) -> str:
    """Return the harness's own id of a session of an adapter: of one that is called so, else the text itself."""
    heads = await heads_of(connection, session, timeout_s, forgotten=True)
    wanted = adapter_id_of(adapter_id)
    return next((head.harness_session_id for head in heads if head.adapter_id == wanted), session)
