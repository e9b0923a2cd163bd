"""How a suggested request stands after an upsert.  Pure."""

from typing import Final

from lifebus_contract import InvalidRequest
from lifebus_contract.jobs import Suggestion, SuggestionStatus

DEFAULT_ERROR: Final = "no request could be suggested"
"""The error of one that failed without a word."""


def suggested(  # noqa: PLR0917  the fields of an upsert
    known: Suggestion | None,
    request_key: str,
    status: SuggestionStatus,
    suggestion: str | None,
    error: str | None,
    now_ms: int,
) -> Suggestion:
    """Return how a request stands after an upsert, `known` itself where that changes nothing.

    One that is over does not stream again.  The text of a suggestion stays where the upsert has none.

    Raises:
        InvalidRequest: ``missing_suggestion``: a complete one has a text.
    """
    if status is SuggestionStatus.COMPLETE and not (suggestion or "").strip():
        raise InvalidRequest("a complete suggestion has a text", code="missing_suggestion", field="$.suggestion")
    if known is not None and known.status.is_terminal and not status.is_terminal:
        return known
    text = suggestion if (suggestion or "").strip() or known is None else known.suggestion
    said = (error or "").strip() or None
    if status is SuggestionStatus.ERROR:
        said = said or (None if known is None else known.error) or DEFAULT_ERROR
    else:
        said = said if status is SuggestionStatus.CANCELED else None
    if known is not None and (known.status, known.suggestion, known.error) == (status, text, said):
        return known
    return Suggestion(request_key=request_key, status=status, suggestion=text or None, error=said, updated_at=now_ms)
