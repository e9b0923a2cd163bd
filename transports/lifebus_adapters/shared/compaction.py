"""How a harness compacts a session that no process has, as data: one command, and what it says of its end.  Pure."""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from lifebus_adapters.shared.one_shot import OneShotReport
from lifebus_contract.flows import HarnessPrompt

SESSION: Final = "{session}"
"""Where the id of the session stands in a command."""


class CompactionReport(Struct, frozen=True, kw_only=True):
    """What a harness says of a compaction; what it does not say is None, or empty.

    `session_id` is the session that it worked on, `compacted` says that it has a smaller context now, and `message` why
    it has not.  `uses` are the models that it has asked for the summary, each with its tokens.
    """

    session_id: str | None = None
    compacted: bool = False
    message: str = ""
    tokens_before: int | None = None
    tokens_after: int | None = None
    uses: tuple[OneShotReport, ...] = ()


class SessionCompaction(Struct, frozen=True, kw_only=True):
    """How a harness compacts a session on request.

    The command is `words`, `model_option` and the model where the prompt asks for one, the prompt's own arguments, and
    `session_words` with the id for `SESSION`; the last word is `request`, with the instructions behind it where there
    are some.  `session_options` are arguments that name a session, which would be another one; True where a value
    follows.
    """

    words: tuple[str, ...]
    session_words: tuple[str, ...]
    request: str
    read: Callable[[bytes, bytes], CompactionReport]
    model_option: str = "--model"
    session_options: dict[str, bool] = {}

    def command(self, prompt: HarnessPrompt, session_id: str, instructions: str = "") -> tuple[str, ...]:
        """Return the program and its arguments; neither the id nor the instructions are ever taken for an option."""
        model = (self.model_option, prompt.model) if prompt.model is not None else ()
        session = tuple(word.replace(SESSION, session_id) for word in self.session_words)
        last = f"{self.request} {instructions}" if instructions else self.request
        return (*self.words, *model, *self._kept(prompt.arguments), *session, last)

    def _kept(self, arguments: tuple[str, ...]) -> Iterator[str]:
        """Yield the arguments that name no session."""
        words = iter(arguments)
        is_value = False
        for word in words:
            option, _, value = word.partition("=")
            if option in self.session_options:
                is_value = self.session_options[option] and not value
            elif not (is_value and not word.startswith("-")):
                is_value = False
                yield word
            else:
                is_value = False


class NoCompaction(Struct, frozen=True):
    """Why nobody can have a harness compact a session with one command."""

    reason: str
