"""What a model request and its answer are, whichever protocol carries them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

MODEL: Final = "fake-model"
"""The name by which harnesses are told of the model."""


_OWN: Final = ("command", "cmd", "prompt", "message", "task", "goal")


@dataclass(frozen=True)
class ConversationItem:
    """One piece of the conversation, in order: who says it, and all its text."""

    role: str
    text: str


@dataclass(frozen=True)
class Conversation:
    """A request: its items, and the schema of each tool that it offers."""

    items: tuple[ConversationItem, ...]
    tools: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def roles_of(self, text: str) -> list[str]:
        """Return who says this text, once for each place."""
        return [item.role for item in self.items if text in item.text]

    def place_of(self, text: str) -> int:
        """Return the index of the first item with this text, -1 where there is none."""
        return next((index for index, item in enumerate(self.items) if text in item.text), -1)


@dataclass(frozen=True)
class Answer:
    """What the model says: a text or a tool call, and the tokens that the request counted."""

    tokens: int
    text: str = ""
    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])


def text_of(content: Any) -> str:
    """Return all text in a content field: a string, a part, or a list of parts, however deep."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        part = cast("dict[str, Any]", content)
        return "\n".join(filter(None, (text_of(part.get(key)) for key in ("text", "content", "parts", "output"))))
    if isinstance(content, list):
        return "\n".join(filter(None, map(text_of, cast("Sequence[Any]", content))))
    return ""


def arguments_for(tool: str, schema: dict[str, Any], words: str) -> dict[str, Any]:
    """Return arguments that fit a tool's schema, with the words where the tool wants its command or task."""
    properties: dict[str, Any] = schema.get("properties") or {}
    # A tool for sub-agents may have an optional `command` beside its prompt, so what is required goes first.
    required: list[str] = schema.get("required") or []
    own = next((key for key in _OWN if key in required), next((key for key in _OWN if key in properties), "command"))
    listed = properties.get(own, {}).get("type") == "array"
    return {own: ["bash", "-c", words] if listed else words} | {
        key: _filler(tool, key, properties.get(key, {})) for key in required if key != own
    }


def _filler(tool: str, key: str, schema: dict[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    plain: dict[str, Any] = {"boolean": False, "integer": 1, "number": 1, "array": [], "object": {}}
    if schema.get("type") in plain:
        return plain[schema["type"]]
    named = {"agent_name": "generalist", "subagent_type": "general" if tool == "task" else "general-purpose"}
    return named.get(key, f"some {key}")
