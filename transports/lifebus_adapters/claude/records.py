"""The lines of a Claude Code transcript as types: the few fields that hold facts, of the many there are."""

from collections.abc import Sequence
from typing import Any, Final, cast

from msgspec import Raw, Struct

from lifebus_adapters.shared.lines import LineDecoder, bounded_sum
from lifebus_contract.fields import Count

_NULL: Final = Raw(b"null")


class TokenUsage(Struct):
    """The tokens of one answer, under the names of the API."""

    input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    output_tokens: Count | None = None

    @property
    def context_tokens(self) -> int:
        """What the context held after the answer, as Claude Code counts it.

        Raises:
            InvalidRequest: the sum is beyond what JSON readers agree on.
        """
        cached = (self.cache_creation_input_tokens, self.cache_read_input_tokens)
        return bounded_sum(self.input_tokens, *cached, self.output_tokens)


class AssistantMessage(Struct):
    """The `message` of an `assistant` line."""

    model: str | None = None
    usage: TokenUsage | None = None
    content: Any = None

    @property
    def tool_calls(self) -> list[Any]:
        """The ids of the tools that it calls."""
        content: object = self.content
        blocks = cast("Sequence[Any]", content) if isinstance(content, list) else ()
        calls = [cast("dict[str, Any]", one) for one in blocks if isinstance(one, dict)]
        return [one.get("id") for one in calls if one.get("type") == "tool_use"]


class ContentBlock(Struct):
    """A block of a prompt's content."""

    type: str = ""
    text: str | None = None
    tool_use_id: Any = None


class UserMessage(Struct):
    """The `message` of a `user` line."""

    content: str | list[ContentBlock] | None = None

    @property
    def text(self) -> str:
        """The first text of the prompt."""
        if isinstance(self.content, str):
            return self.content
        return next((part.text for part in self.content or () if part.text), "")

    @property
    def is_tool_result(self) -> bool:
        """Whether a tool wrote it, not a user."""
        return isinstance(self.content, list) and any(part.type == "tool_result" for part in self.content)

    @property
    def tool_results(self) -> list[Any]:
        """The ids of the calls whose results it has."""
        parts = self.content if isinstance(self.content, list) else []
        return [part.tool_use_id for part in parts if part.type == "tool_result"]


class CompactMetadata(Struct, rename="camel"):
    """The `compactMetadata` of a `compact_boundary`."""

    trigger: str | None = None
    pre_tokens: Count | None = None
    post_tokens: Count | None = None


class PromptEnding(Struct, frozen=True):
    """How a prompt ended that no turn followed."""

    kind: str | None = None


class PromptSubmitEnding(Struct):
    """The `promptSubmitEnding` of a `system` line."""

    ending: PromptEnding = PromptEnding()


# All fields but `type` may be missing: each kind of line has its own.
class Line(Struct, rename="camel"):
    """What is read of any line; its `message` is read once its type is known."""

    type: str
    subtype: str | None = None
    uuid: str | None = None
    session_id: str | None = None
    prompt_id: str | None = None
    prompt_source: str | None = None
    turn_origin: str | None = None
    interrupted_message_id: str | None = None
    cwd: Any = None
    git_branch: Any = None
    custom_title: Any = None
    ai_title: Any = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    repeats_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    request_session_id: str | None = None
    timestamp: str | None = None
    compact_metadata: CompactMetadata | None = None
    prompt_submit_ending: PromptSubmitEnding | None = None
    # Of a `stop_hook_summary`: what hooks that refused the stop said, with the places of those that merely failed.
    hook_errors: list[Raw] | None = None
    failed_hook_error_indexes: list[Raw] | None = None
    hook_additional_context: list[Raw] | None = None
    message: Raw = _NULL


LINE: Final = LineDecoder(Line)
"""Reads a line."""

ASSISTANT_MESSAGE: Final = LineDecoder(AssistantMessage)
"""Reads the message of an answer."""

USER_MESSAGE: Final = LineDecoder(UserMessage)
"""Reads the message of a prompt."""
