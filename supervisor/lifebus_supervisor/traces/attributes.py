"""Attributes of spans, events and log records, made of what receipts say: no text that somebody has written.  Pure."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from lifebus_broker.state.telemetry_keys import (
    ANNOUNCED_END,
    BACKGROUND_CLIENT,
    CAUSE,
    CORRECTS,
    FRAME,
    LEVEL,
    PARENT_FRAME,
    PERCENT,
    SOURCE,
    USED,
    WAITING_ENDED_BY,
    WAITING_ID,
    WAITING_KIND,
)
from lifebus_contract import Receipt, ReceiptStatus
from lifebus_contract.facts.catalogue import every_fact
from lifebus_contract.facts.fact import FactType
from lifebus_contract.vocabulary import FLOW_ADAPTER
from lifebus_supervisor.traces import names
from lifebus_supervisor.traces.spans import Value

WINDOW: Final = "context_window_tokens"
AGENT_TYPE: Final = "agent_type"
MODEL: Final = "model"
CONTINUES: Final = "continues_frame_id"

_WORDS: Final = frozenset(
    {
        *(FRAME, PARENT_FRAME, AGENT_TYPE, MODEL, SOURCE, CAUSE, CORRECTS, CONTINUES, ANNOUNCED_END),
        *(WAITING_KIND, WAITING_ID, WAITING_ENDED_BY, "source_hook", "trigger", "emitter", "flow", "step"),
        *("operator_kind", "request_id", "harness_version", "platform", "used_source", "window_source", "error"),
        *("reason", "client_signal", "client_step", "code_name"),
    }
)
"""Facts that are words of a program; what people or models write (titles, directories, stderr, evidence) is not."""

_CLOSED: Final = frozenset(
    fact.key for fact in every_fact() if fact.kind in {FactType.INTEGER, FactType.BOOLEAN} or fact.values
)
EXPORTED_FACTS: Final = _WORDS | _CLOSED
"""The facts that are exported: numbers, flags, facts whose values can be counted, and words of programs."""

_WORD: Final = re.compile(r"[\w.:/@+\[\]-]{1,128}", re.ASCII)
_PLACED: Final = {
    ReceiptStatus.DELIVERED: names.DELIVERED,
    ReceiptStatus.DEGRADED: names.DEGRADED,
    ReceiptStatus.SKIPPED: names.SKIPPED,
    ReceiptStatus.FAILED: names.FAILED,
}


def word(value: object) -> str | None:
    """Return a text if it is one word, as programs have them; None of anything else."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None


def identity(receipt: Receipt) -> dict[str, Value]:
    """Return the attributes that say of which harness and session something is."""
    found: dict[str, Value] = {names.ADAPTER: receipt.adapter_id}
    if receipt.harness_session_id is not None:
        found[names.CONVERSATION] = found[names.SESSION_ID] = receipt.harness_session_id
    return found


def agent(adapter_id: str, name: str) -> dict[str, Value]:
    """Return the attributes of an agent that works; a flow is none."""
    if adapter_id == FLOW_ADAPTER:
        return {}
    found: dict[str, Value] = {names.OPERATION: names.INVOKE_AGENT, names.AGENT_NAME: name}
    if adapter_id in names.PROVIDERS:
        found[names.PROVIDER] = names.PROVIDERS[adapter_id]
    return found


def pressure(facts: Mapping[str, object]) -> dict[str, Value]:
    """Return how full the context is, as far as it is known."""
    named = {names.PRESSURE: LEVEL, names.USED_TOKENS: USED, names.USED_PCT: PERCENT, names.WINDOW_TOKENS: WINDOW}
    return _chosen(named, facts)


def exported(facts: Mapping[str, object]) -> dict[str, Value]:
    """Return facts as attributes: those that are exported, and of texts those that are one word."""
    found: dict[str, Value] = {}
    for key in sorted(EXPORTED_FACTS.intersection(facts)):
        value = facts[key]
        if isinstance(value, int) or word(value) is not None:
            found[f"{names.FACT_PREFIX}{key}"] = value if isinstance(value, int) else str(value)
    return found


def dispatch(receipt: Receipt) -> dict[str, Value]:
    """Return the attributes of a dispatch: which client was asked about what, and what came of it."""
    facts = receipt.telemetry_summary
    found = identity(receipt) | outcome(receipt)
    if facts.get(BACKGROUND_CLIENT) is True:
        found[names.BACKGROUND] = True
    if type(code := facts.get("client_exit_code")) is int:
        found[names.EXIT_CODE] = code
    for status, count in Counter(one.status for one in receipt.payload_receipts).items():
        if status in _PLACED:
            found[_PLACED[status]] = count
    return found


def outcome(receipt: Receipt) -> dict[str, Value]:
    """Return the attributes that every record of a receipt has: what happened, who says it, and how it went."""
    found: dict[str, Value] = {
        names.EVENT: receipt.event.value,
        names.CLIENT: receipt.client_id,
        names.INVOCATION: receipt.invocation_id,
        names.STATUS: receipt.status.value,
    }
    if receipt.failure_class is not None:
        found[names.ERROR] = receipt.failure_class.value
    if receipt.retry_class is not None:
        found[names.RETRY] = receipt.retry_class.value
    if receipt.warnings:
        found[names.WARNINGS] = tuple(one.code for one in receipt.warnings)
    return found


def _chosen(named: Mapping[str, str], facts: Mapping[str, object]) -> dict[str, Value]:
    return {name: value for name, key in named.items() if isinstance(value := facts.get(key), str | int)}
