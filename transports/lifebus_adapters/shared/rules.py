"""What a harness's hook table is made of: frozen data, so that each `hooks.py` reads like the harness's own manual."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from lifebus_adapters.shared.fields import Payload
from lifebus_adapters.shared.telemetry import Fact
from lifebus_contract import IntegrationMode, LifecycleEvent, ManifestPlacementClass

HookFacts = Callable[[str, Payload, str], tuple[Fact, ...]]
"""Returns the telemetry facts in a hook's payload: hook name, payload and session in, facts out."""


def no_facts(hook: str, payload: Payload, session: str) -> tuple[Fact, ...]:  # noqa: ARG001  it is a default
    """Return nothing: the payloads of this harness have no telemetry in them."""
    return ()


SESSION_OPEN = (LifecycleEvent.SESSION_STARTING, LifecycleEvent.SESSION_STARTED)
"""What one start hook yields."""

SESSION_CLOSE = (LifecycleEvent.SESSION_ENDING, LifecycleEvent.SESSION_ENDED)
"""What one end-of-session hook yields."""

FRAME_OPEN = (LifecycleEvent.FRAME_OPENING, LifecycleEvent.FRAME_OPENED)
"""What one prompt hook yields: lifebus answers it with the deliveries, so the frame is open once it returns."""

FRAME_CLOSE = (LifecycleEvent.FRAME_ENDING, LifecycleEvent.FRAME_ENDED)
"""What one stop hook yields: lifebus never blocks a stop, so the frame has ended."""


WAIT = (LifecycleEvent.SUPERVISOR_TICK,)
"""What a hook yields that says that a person is waited for, or not any more."""


class FactField(Struct, frozen=True):
    """A field of a payload that goes into `telemetry`: its path, its type, and its key if that is not the last part."""

    path: str
    kind: type = str
    name: str = ""

    @property
    def key(self) -> str:
        """The key in `telemetry`."""
        return self.name or self.path.rpartition(".")[2]


class WaitRule(Struct, frozen=True, kw_only=True):
    """What a hook says of a session that waits for a person (docs/waiting.md).

    `begins` says for what it waits from now on: ``permission``, ``input`` or ``idle``; `ends` what it does not wait for
    any more.  Both are a word, or a function that takes it from the payload and returns None where it says nothing of
    it.  `kind` is the path of the kind of thing, or a function of the payload; `request` that of the harness's own id.
    A `reminder` repeats what another hook has said, if that one is called: it adds nothing to a wait that is known.
    """

    begins: str | Callable[[Payload], str | None] | None = None
    ends: str | Callable[[Payload], str | None] | None = None
    kind: str | Callable[[Payload], str | None] = ""
    request: str = ""
    reminder: bool = False


class HookRule(Struct, frozen=True, kw_only=True):
    """What one native hook means.

    `unless` says when the hook means nothing: a field and its value, or a function of the payload. `frame_end` says
    how a frame ended: one word, or a function that takes it from the payload. `subagent` hooks are about a nested
    frame and must name the agent. `mode` is the integration mode through which it came. A hook that fires `once` for
    a turn or agent is known by their ids. One that `may_continue` comes for a prompt, and also where a refused stop
    made the turn go on. One that `announces` has a lone `frame.ending` or `frame.ended`, and the frame may go on.
    `takes` is the placement class of the context that its answer may carry, None where it carries none.
    `waits` says that the hook is about a wait for a person; its one event is a `supervisor.tick` then (`WAIT`).
    """

    events: tuple[LifecycleEvent, ...]
    facts: tuple[FactField, ...] = ()
    unless: tuple[str, str | int] | Callable[[Payload], bool] | None = None
    frame_end: str | Callable[[Payload], str] = "completed"
    subagent: bool = False
    once: bool = False
    may_continue: bool = False
    announces: bool = False
    mode: IntegrationMode = IntegrationMode.NATIVE_HOOK
    takes: ManifestPlacementClass | None = None
    waits: WaitRule | None = None


class IdentityPaths(Struct, frozen=True, kw_only=True):
    """Where a harness keeps its ids; the first path that holds one wins.

    `event` is an id of the single hook call; where a harness has none, that of the agent, task or run stands in.
    A frame is named by `frame`, else by the task, else by the run.  Where a call holds none of them, supervision gives
    the frame its number in the session (`lifebus_supervisor.supervision.rules.frame_ids`).
    """

    session: tuple[str, ...]
    task: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    agent: tuple[str, ...] = ()
    event: tuple[str, ...] = ()
    frame: tuple[str, ...] = ()


def hook_specific_output(hook: str, context: str) -> dict[str, Any]:
    """Return the answer that Codex, Claude Code and Gemini CLI share."""
    # Not one key more: Codex drops the whole answer for a key that it does not know.
    return {"hookSpecificOutput": {"hookEventName": hook, "additionalContext": context}}


class HookTable(Struct, frozen=True, kw_only=True):
    """Everything needed to read one harness's hooks, and to answer them.

    `name` is where a payload names its own hook, `rules` what the hooks mean, `silent` the hooks that are known and
    mean nothing.  `sessionless` hooks come without a session id.  `transcript` is where a payload names the session's
    telemetry file.  `answer` puts a context text into the JSON that the harness reads: hook name and text in.
    `displays` are the hooks whose output the harness shows to the user, each with what makes that line of the payload;
    their payload does not name them.  Hooks `in_process` are called by a plugin in the harness itself, not by a helper.
    """

    name: tuple[str, ...]
    identity: IdentityPaths
    rules: Mapping[str, HookRule]
    silent: frozenset[str]
    sessionless: frozenset[str] = frozenset()
    transcript: tuple[str, ...] = ()
    answer: Callable[[str, str], dict[str, Any]] = hook_specific_output
    displays: Mapping[str, Callable[[Payload], str]] = {}
    in_process: bool = False

    @property
    def known(self) -> frozenset[str]:
        """The names of all hooks that the harness has."""
        return self.silent.union(self.rules)
