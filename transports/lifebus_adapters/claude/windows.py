"""How large the context windows of Claude models are, in tokens: only those that are sure.  Pure data.

A model that is sold with two sizes is left out, because its name alone does not say which; a name that ends in
``[1m]`` does.  What the status line or the user says goes before this table.
"""

from typing import Final

WINDOWS: Final = {
    "claude-3-haiku": 200_000,
    "claude-3-sonnet": 200_000,
    "claude-3-opus": 200_000,
    "claude-3-5-haiku": 200_000,
    "claude-3-5-sonnet": 200_000,
    "claude-3-7-sonnet": 200_000,
    "claude-opus-4": 200_000,
    "claude-opus-4-0": 200_000,
    "claude-opus-4-1": 200_000,
    "claude-opus-4-5": 200_000,
    "claude-haiku-4-5": 200_000,
    "claude-opus-5-5": 1_000_000,
}
"""Windows by name without date; the last one as in the status line of Claude Code 2.1.330."""

_LARGE: Final = "[1m]"
_LARGE_TOKENS: Final = 1_000_000
_FAMILY: Final = "claude-"


def window_of(model: str) -> int | None:
    """Return the window of a model, None if its name does not say.

    Clouds write more around a name: ``us.anthropic.claude-opus-4-1-20250805-v1:0``, ``claude-opus-4-1@20250805``.
    """
    if model.endswith(_LARGE):
        return _LARGE_TOKENS
    # A cloud's region and vendor stand before the name, its version behind an `@`.
    name = model[max(model.find(_FAMILY), 0) :].partition("@")[0]
    head, _, tail = name.removesuffix("-v1:0").removesuffix("-v2:0").removesuffix("-latest").rpartition("-")
    is_date = len(tail) == len("20250805") and tail.isascii() and tail.isdigit()
    return WINDOWS.get(head if is_date else f"{head}-{tail}")
