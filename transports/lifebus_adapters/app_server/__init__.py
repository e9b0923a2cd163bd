"""The Codex app-server on its stdin and stdout: signals and lifecycle facts, read from the bytes that pass."""

from lifebus_adapters.app_server.facts import (
    AppServerFact,
    ErrorSeen,
    OperatorAnswered,
    OperatorAsked,
    ThreadClosed,
    ThreadOpened,
    TurnSteered,
)
from lifebus_adapters.app_server.naming import event_type, normalize
from lifebus_adapters.app_server.reader import (
    AppServerReader,
    Direction,
    FactSeen,
    Observed,
    ReaderCounters,
    SignalSeen,
)
from lifebus_adapters.app_server.signals import MAX_PARAMS_BYTES, SignalContext, SignalEnvelope, SignalSession

__all__ = [
    "MAX_PARAMS_BYTES",
    "AppServerFact",
    "AppServerReader",
    "Direction",
    "ErrorSeen",
    "FactSeen",
    "Observed",
    "OperatorAnswered",
    "OperatorAsked",
    "ReaderCounters",
    "SignalContext",
    "SignalEnvelope",
    "SignalSeen",
    "SignalSession",
    "ThreadClosed",
    "ThreadOpened",
    "TurnSteered",
    "event_type",
    "normalize",
]
