"""Bodies of the verbs of transcripts (docs/transcripts.md).  Pure."""

from typing import Annotated

from msgspec import Meta

from lifebus_contract.fields import Count, Document, Identifier, refuse_unprintable
from lifebus_contract.jobs import EnqueueStatus, Suggestion, SuggestionError, SuggestionStatus, SuggestionText
from lifebus_contract.transcripts import TranscriptEntry, TranscriptInfo


class _OfSession(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What names a session."""

    session_id: Identifier

    def __post_init__(self) -> None:
        if not self.session_id.isprintable():
            refuse_unprintable(self)


class UpsertEntry(_OfSession, frozen=True, kw_only=True, omit_defaults=True):
    """`transcript_upsert`: merge an entry into the one of its message id."""

    entry: TranscriptEntry


class UpsertedEntry(_OfSession, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `transcript_upsert`: the entry as it is after the merge."""

    entry: TranscriptEntry


class ShowTranscript(_OfSession, frozen=True, kw_only=True, omit_defaults=True):
    """`transcript_show`: the entries of a transcript behind a sequence."""

    after: Count = 0
    limit: Annotated[int, Meta(ge=1, le=256)] = 64


class TranscriptsQuery(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`transcript_list`: the transcripts that are kept, by session id, behind `after`; or that of one session.

    `deleted` has the sessions that were deleted as well, `system_owned` those of the broker's own workers.
    """

    session_id: Identifier | None = None
    after: Identifier | None = None
    limit: Annotated[int, Meta(ge=1, le=256)] = 64
    deleted: bool = False
    system_owned: bool = False


class TranscriptInfos(Document, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `transcript_list`; `next` is the session to go on behind, null where there are no more."""

    transcripts: tuple[TranscriptInfo, ...] = ()
    next: Identifier | None = None


class SuggestRequest(_OfSession, frozen=True, kw_only=True, omit_defaults=True):
    """`suggest_request`: have an extension suggest what a person may ask for next."""

    model: Identifier | None = None
    effort: Identifier | None = None
    draft: Annotated[str, Meta(min_length=1, max_length=4_000)] | None = None


class SuggestedJob(_OfSession, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `suggest_request`: the job that suggests it, and whether it was queued already."""

    request_key: Identifier
    project_id: Identifier
    job_id: Identifier
    status: EnqueueStatus


class UpsertSuggestion(_OfSession, frozen=True, kw_only=True, omit_defaults=True):
    """`suggestion_upsert`: how a suggested request stands."""

    request_key: Identifier
    status: SuggestionStatus
    suggestion: SuggestionText | None = None
    error: SuggestionError | None = None


class ShowSuggestion(_OfSession, frozen=True, kw_only=True, omit_defaults=True):
    """`suggestion_show`: a suggested request, as soon as it is over, or after `wait_ms` as it is then."""

    request_key: Identifier
    wait_ms: Annotated[int, Meta(ge=0, le=30_000)] = 0


class SuggestionAnswer(_OfSession, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `suggestion_upsert` and `suggestion_show`: how it stands now, after the merge."""

    suggestion: Suggestion
