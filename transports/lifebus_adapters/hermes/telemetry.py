"""What Hermes leaves behind: its database, and the token counts in `post_api_request` (measured with 0.19.0).

The window stands in a file of Hermes' own that no reader sees, so there is no percentage.
"""

from collections.abc import Sequence
from typing import Final

from lifebus_adapters.shared.fields import Payload, count, identifier
from lifebus_adapters.shared.sources import database
from lifebus_adapters.shared.telemetry import DatabaseReader, Fact, SourceSpec, Surroundings, Usage

_DATABASE: Final = "state.db"
_PROMPT_TOKENS: Final = "hook:post_api_request.usage.prompt_tokens"


def _roots(surroundings: Surroundings) -> Sequence[str]:
    home = surroundings.first("HERMES_HOME")
    return (f"{home[1] if home else surroundings.home + '/.hermes'}/{_DATABASE}",)


def _is_ours(path: str) -> bool:
    # By the name alone: the database's place depends on HERMES_HOME, which a broker may not share.
    return path.endswith(f"/{_DATABASE}")


def _make_reader() -> DatabaseReader:
    from lifebus_adapters.hermes.database import MessageReader  # noqa: PLC0415  many users have no such file

    return MessageReader()


SOURCES: Final[tuple[SourceSpec, ...]] = (database(roots=_roots, is_ours=_is_ours, make_reader=_make_reader),)
"""The database: one for all sessions of a Hermes home."""


def hook_facts(hook: str, payload: Payload, session: str) -> tuple[Fact, ...]:
    """Return the facts in the payload of a hook: how full the context was in a request that is over.

    Raises:
        InvalidRequest: a count is no number of tokens.
    """
    used = count(payload, "extra.usage.prompt_tokens") if hook == "post_api_request" else None
    if used is None:
        return ()
    model = identifier(payload, "extra.model")
    return (Usage(session=session, used_tokens=used, used_source=_PROMPT_TOKENS, model=model),)
