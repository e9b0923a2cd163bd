"""Facts of `context.pressure_observed` and `context.compacted`.  Pure."""

from typing import Final

from lifebus_contract.facts.fact import flag, number, text
from lifebus_contract.vocabulary import LifecycleEvent

PRESSED: Final = (LifecycleEvent.CONTEXT_PRESSURE_OBSERVED,)
COMPACTED: Final = (LifecycleEvent.CONTEXT_COMPACTED,)

_FLOWS: Final = "flows"
_FLOW_TEST: Final = "tests/supervisor/runtime/test_flow_facts.py"

FACTS: Final = (
    text(
        "context_pressure",
        "the level: below 60 %, 80 %, 92 %, and above ([contract.md](../contract.md#25-pressure)); null where the "
        "window is not known",
        PRESSED,
        "low moderate high critical",
        nullable=True,
    ),
    number(
        "context_used_pct",
        "how much of the window is used; null where the window is not known",
        PRESSED,
        "%",
        nullable=True,
    ),
    number(
        "context_used_tokens",
        "how many tokens are used; null where nothing was measured since the last compaction",
        PRESSED,
        "tokens",
        nullable=True,
    ),
    number(
        "context_window_tokens", "how large the window is; null where nobody knows", PRESSED, "tokens", nullable=True
    ),
    text("used_source", "where the used tokens were read", PRESSED),
    text(
        "window_source", "where the window was read; `table:` and `model:` are lifebus's own table of models", PRESSED
    ),
    text("model", "the model whose window it is", PRESSED),
    text("source", "what showed it: a hook, or the field of the harness's file", PRESSED),
    flag(
        "signal",
        "the harness says that its context is full, without numbers; those beside it are the newest that its file has",
        PRESSED,
    ),
    text("trigger", "who asked for the compaction that is about to come", PRESSED, "auto manual"),
    text(
        "near",
        "the limits of the run that are near, with commas between",
        PRESSED,
        reporter=_FLOWS,
        shown_by=_FLOW_TEST,
    ),
    number(
        "near_limit_percent", "from what share on a limit is near", PRESSED, "%", reporter=_FLOWS, shown_by=_FLOW_TEST
    ),
    text("step", "the phase that comes near them", PRESSED, reporter=_FLOWS, shown_by=_FLOW_TEST),
    text("frame_id", "the try of that phase", PRESSED, reporter=_FLOWS, shown_by=_FLOW_TEST),
    text("trigger", "who asked for the compaction, in the harness's own word", COMPACTED, "auto manual"),
    text(
        "source",
        "what proves the compaction: a hook (`hook:PostCompact`), `app_server`, `rollout`, `telemetry`",
        COMPACTED,
    ),
    number("tokens_before", "how many tokens the context had", COMPACTED, "tokens"),
    number("tokens_after", "how many it has now", COMPACTED, "tokens"),
)
"""Facts of contexts."""
