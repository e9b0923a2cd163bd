"""Facts of `session.starting`, `session.started`, `session.ending` and `session.ended`.  Pure."""

from typing import Final

from lifebus_contract.facts.fact import flag, number, text
from lifebus_contract.vocabulary import LifecycleEvent

STARTED: Final = (LifecycleEvent.SESSION_STARTED,)
STARTS: Final = (LifecycleEvent.SESSION_STARTING, *STARTED)
ENDED: Final = (LifecycleEvent.SESSION_ENDED,)
ENDING: Final = (LifecycleEvent.SESSION_ENDING,)
ENDS: Final = (*ENDING, *ENDED)

_FLOWS: Final = "flows"
_FLOW_TEST: Final = "tests/supervisor/runtime/test_flow_facts.py"

FACTS: Final = (
    text(
        "source",
        "how the session began, in the harness's own word (`startup`, `resume`, `clear`, `fork`), or, where lifebus "
        "concluded it, what showed it (`app_server:thread/start`, `hook:chat.message`)",
        STARTS,
    ),
    text("model", "the model that the session begins with", STARTS),
    number("context_tokens", "how many tokens the context has already", STARTS, "tokens"),
    text("harness_version", "the harness's version, where its hook says it", STARTS),
    text("platform", "from where the harness is used", STARTS),
    flag("resumed", "the session had ended, and goes on", STARTS),
    flag("synthesized", "no hook reported it: lifebus concluded it from a later sign of life", STARTS),
    text("evidence", "that sign of life, in words", STARTS),
    text("thread", "whether the thread is new to the app-server", STARTED, "started resumed"),
    text("harness_process", "the harness's process, `<pid>@<start>`", STARTED),
    text("flow", "the flow's name", STARTS, reporter=_FLOWS, shown_by=_FLOW_TEST),
    text("owner", "the client that runs it", STARTS, reporter=_FLOWS, shown_by=_FLOW_TEST),
    number("interruptions", "how often the run was interrupted before", STARTS, reporter=_FLOWS, shown_by=_FLOW_TEST),
    text(
        "announced_end",
        "how the session is to end, as the hook announces it; `session.ended` says how it did",
        ENDING,
        "completed failed interrupted",
    ),
    text("reason", "why it ends, in the harness's own word: `exit`, `clear`, `prompt_input_exit`", ENDS),
    text(
        "session_end",
        "how the session ended. `abandoned`: it was at work when its process was gone or nothing came any more; "
        "`process_gone`, `silent`: nothing was open then; `closed`: an operator closed it; `failed` and `aborted` are "
        "those of a run of a flow",
        ENDED,
        "completed failed abandoned process_gone silent closed aborted",
    ),
    text(
        "session_end",
        "how the run is about to end",
        ENDING,
        "completed failed aborted",
        reporter=_FLOWS,
        shown_by=_FLOW_TEST,
    ),
    text("evidence", "what shows the end, in words", ENDED),
    text("source", "where that was seen: a hook (`hook:SessionEnd`), `app_server`, `supervisor`", ENDED),
    text(
        "closed_by",
        "the client by which an operator closed it ([sessions.md](../sessions.md#closing-and-forgetting))",
        ENDED,
        reporter="the supervisor",
        shown_by="tests/integration/test_closing_sessions.py",
    ),
    number("exit_code", "the exit code of the harness or app-server", ENDED, reporter="the wrapper, at both events"),
    number(
        "exit_code",
        "the exit code of the harness, negative for a signal",
        ENDING,
        reporter="the wrapper",
        shown_by="tests/adapters/hooks/test_own_hooks.py",
    ),
    number("signal", "the number of the signal that ended the app-server", ENDED),
    number("tokens", "what all calls of the model took", ENDED, "tokens", reporter=_FLOWS, shown_by=_FLOW_TEST),
    number("cost_micros", "what they cost", ENDED, "millionths of a dollar", reporter=_FLOWS, shown_by=_FLOW_TEST),
    number("unpriced_calls", "calls whose price is not known", ENDED, reporter=_FLOWS, shown_by=_FLOW_TEST),
)
"""Facts of sessions that begin and end."""
