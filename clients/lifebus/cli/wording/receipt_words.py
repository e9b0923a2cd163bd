"""What a receipt says, in a few words each: of its plain values, and made without any library."""

from lifebus.cli.wording.receipt_line import receipt_line, sequence_text, session_text

TYPE_CHECKING = False  # `lifebus emit` prints its receipt before `typing` would be loaded
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Plain = Mapping[str, Any]

_SESSION = 13
_SESSION_TAIL = 6
_PRESSURE = ("context_used_tokens", "context_used_pct", "context_pressure")

_CORRECTIONS = {
    "prompt_blocked": "never reached the model: the prompt was blocked",
    "answer_not_taken": "never reached the harness: it did not get the hook's answer",
}


def session_label(receipt: "Plain", name: str | None) -> str:
    """Return the session's short name, else adapter and the end of its id, which differs where beginnings do not."""
    session: str | None = receipt["harness_session_id"]
    adapter_id: str = receipt["adapter_id"]
    if session is None:
        return adapter_id[:_SESSION]
    if name is not None:
        # The number distinguishes it, so the folder is what is cut.
        folder, _, number = name.rpartition("#")
        return name if len(name) <= _SESSION else f"{folder[: _SESSION - len(number) - 2]}…#{number}"
    tail = session if len(session) <= _SESSION_TAIL else "…" + session[-_SESSION_TAIL:]
    return f"{adapter_id[: _SESSION - 1 - len(tail)]} {tail}"


def placement_of(receipt: "Plain") -> str:
    """Return where payloads went, or would have gone: each placement once."""
    return " ".join(dict.fromkeys(one["placement"] for one in receipt["payload_receipts"] if one["placement"]))


def degraded_of(receipt: "Plain") -> str:
    """Return what is lost, and with a plus before it what is back."""
    degradations = receipt["capability_degradations"]
    if not degradations:
        return ""
    from lifebus_contract import SUPPORT_STRENGTH  # noqa: PLC0415  few receipts need it

    strength = {state.value: rank for state, rank in SUPPORT_STRENGTH.items()}
    return " ".join(
        ("+" if strength[one["current_support"]] > strength[one["previous_support"]] else "") + one["capability"]
        for one in degradations
    )


def fact_of(receipt: "Plain") -> str:
    """Return what the telemetry says, in a few words: how full the context is, how a frame ended, why."""
    facts = receipt["telemetry_summary"]
    used, percent, level = (facts.get(name) for name in _PRESSURE)
    if receipt["event"] == "context.pressure_observed":
        share = f"{percent} %" if percent is not None else f"{used} tokens" if used is not None else ""
        return " ".join(str(part) for part in (share, level, facts.get("source_hook")) if part)
    if facts.get("waiting_for") is not None:
        return wait_of(receipt)
    end = facts.get("frame_end") or facts.get("session_end")
    if end is not None and end != "completed":
        return str(end)
    if facts.get("forgotten") is True:
        return "forgotten"
    return str(facts.get("trigger") or facts.get("canary") or "")


def wait_of(receipt: "Plain") -> str:
    """Return in words that a session begins to wait for a person, and for what, or what ended that."""
    facts = receipt["telemetry_summary"]
    kind = f" ({facts['waiting_kind']})" if facts.get("waiting_kind") else ""
    if facts.get("waiting") == "begun":
        return f"waits for {facts['waiting_for']}{kind}"
    return f"waits no more: {facts.get('waiting_ended_by', 'ended')}"


def correction_of(receipt: "Plain") -> str:
    """Return in words why a receipt takes back what another one promised; empty where it does not."""
    facts = receipt["telemetry_summary"]
    return _CORRECTIONS.get(str(facts.get("cause")), "it turned out false") if "corrects" in facts else ""


def note_of(receipt: "Plain") -> str:
    """Return the one thing worth saying beside the status: what is lost, the failure, the placement, or the facts."""
    if degraded := degraded_of(receipt):
        return degraded
    if correction := correction_of(receipt):
        return correction
    failure: str | None = receipt["failure_class"]
    if failure is not None:
        return failure
    if placement := placement_of(receipt):
        return f"→ {placement}"
    return fact_of(receipt)


def whole_line(receipt: "Plain", name: str | None = None) -> str:
    """Return a line that a pipe can cut: time, session, sequence, event, status, then named extras."""
    extras = {
        "client": receipt["client_id"],
        "placement": placement_of(receipt),
        "failure": receipt["failure_class"] or "",
        "degraded": degraded_of(receipt).replace(" ", ","),
        "correction": f'"{correction}"' if (correction := correction_of(receipt)) else "",
        "fact": f'"{fact}"' if " " in (fact := fact_of(receipt)) else fact,
        "receipt": receipt["receipt_id"],
        "name": name or "",
    }
    session = session_text(receipt["adapter_id"], receipt["harness_session_id"])
    words = (session, sequence_text(receipt["sequence"]), receipt["event"], receipt["status"])
    return receipt_line(receipt["at_epoch_s"], words, extras)
