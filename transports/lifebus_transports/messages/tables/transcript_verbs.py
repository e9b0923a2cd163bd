"""The verbs of transcripts (docs/transcripts.md).  Pure."""

from typing import Final

from lifebus_contract.transcripts import TranscriptPage
from lifebus_transports.messages.transcripts import (
    ShowSuggestion,
    ShowTranscript,
    SuggestedJob,
    SuggestionAnswer,
    SuggestRequest,
    TranscriptInfos,
    TranscriptsQuery,
    UpsertedEntry,
    UpsertEntry,
    UpsertSuggestion,
)
from lifebus_transports.messages.verb_types import SUGGESTION_WAITS, SUGGESTIONS, TRANSCRIPTS, Repeat, Verb

TABLE: Final = (
    Verb(
        name="transcript_upsert",
        summary="Merges an entry into a transcript by its message id.",
        body=UpsertEntry,
        answer=UpsertedEntry,
        pool=TRANSCRIPTS,
    ),
    Verb(
        name="transcript_show",
        summary="Returns a page of a transcript.",
        body=ShowTranscript,
        answer=TranscriptPage,
        pool=TRANSCRIPTS,
    ),
    Verb(
        name="transcript_list",
        summary="Returns how transcripts stand.",
        body=TranscriptsQuery,
        answer=TranscriptInfos,
        pool=TRANSCRIPTS,
    ),
    Verb(
        name="suggest_request",
        summary="Has extensions suggest a person's next request.",
        body=SuggestRequest,
        answer=SuggestedJob,
        pool=SUGGESTIONS,
        timeout_factor=6,
        repeat=Repeat.NEVER,
    ),
    Verb(
        name="suggestion_upsert",
        summary="Merges how a suggested request stands.",
        body=UpsertSuggestion,
        answer=SuggestionAnswer,
        pool=TRANSCRIPTS,
    ),
    Verb(
        name="suggestion_show",
        summary="Returns how a suggested request stands.",
        body=ShowSuggestion,
        answer=SuggestionAnswer,
        pool=SUGGESTION_WAITS,
        wait_key="wait_ms",
    ),
)
"""Their part of the table of verbs."""
